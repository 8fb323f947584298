-- Call off whoever holds the unique key of such a job. Parameters as find.sql, $7 reason or null.
-- Index and locks: awa.cancel_unique.
select job_id as "job_id?", outcome as "outcome!", state as "state?: awa_model::JobState", holder as "holder?"
  from awa.cancel_unique(
           $1::text, $2::text::jsonb, $3::text, $4::jsonb,
           coalesce($5::timestamptz, now() + make_interval(secs => $6::double precision)), $7::text)
