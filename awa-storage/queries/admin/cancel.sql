-- Call jobs $1 off, noting reason $2 or null. One row for each id, in order. Locks and index: awa.cancel_many.
select job_id as "job_id?", outcome as "outcome!", state as "state?: awa_model::JobState", holder as "holder?"
  from awa.cancel_many($1::bigint[], $2::text)
