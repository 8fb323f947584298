-- Answer callback $1: fail, with error $2. One row. Locks and index: awa.answer_callback.
select job_id as "job_id?", outcome as "outcome!", state as "state?: awa_model::JobState"
  from awa.callback_fail($1, $2)
