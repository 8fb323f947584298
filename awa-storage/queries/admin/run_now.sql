-- Do not wait for the time of jobs $1. One row for each id, in order. Locks and index: awa.run_now_many.
select job_id as "job_id?", outcome as "outcome!", state as "state?: awa_model::JobState", holder as "holder?"
  from awa.run_now_many($1::bigint[])
