-- Answer callback $1: complete, with JSON $2 or null. One row. Locks and index: awa.answer_callback.
select job_id as "job_id?", outcome as "outcome!", state as "state?: awa_model::JobState"
  from awa.callback_complete($1, $2::text::jsonb)
