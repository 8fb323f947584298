-- Change job $1 as the text of an object $2 says. One row. Locks and index: awa.edit.
select job_id as "job_id?", outcome as "outcome!", state as "state?: awa_model::JobState", holder as "holder?"
  from awa.edit($1::bigint, $2::text::jsonb)
