-- Remove jobs $1. One row for each id, in order. Locks and index: awa.delete_jobs.
select job_id as "job_id?", outcome as "outcome!", state as "state?: awa_model::JobState", holder as "holder?"
  from awa.delete_jobs($1::bigint[])
