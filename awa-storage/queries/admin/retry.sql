-- Give ended jobs $1 another life. One row for each id, in order. Locks and index: awa.retry_many.
select job_id as "job_id?", outcome as "outcome!", state as "state?: awa_model::JobState", holder as "holder?"
  from awa.retry_many($1::bigint[])
