-- What became of the jobs $1: one row for each that exists. Index: the primary keys. Locks nothing.
-- Times as Rust can hold them, and documents as texts: a producer may have written what Rust cannot read.
select job_id as "job_id!",
       kind as "kind!: awa_model::Kind",
       queue as "queue!: awa_model::QueueName",
       state as "state!: awa_model::JobState",
       priority as "priority!",
       attempt as "attempt!",
       max_attempts as "max_attempts!",
       greatest(least(run_at, timestamptz '200000-01-01 UTC'), timestamptz '0001-01-01 UTC') as "run_at!",
       greatest(least(created_at, timestamptz '200000-01-01 UTC'), timestamptz '0001-01-01 UTC') as "created_at!",
       case when attempted_at is not null then
           greatest(least(attempted_at, timestamptz '200000-01-01 UTC'), timestamptz '0001-01-01 UTC')
       end as attempted_at,
       case when finalized_at is not null then
           greatest(least(finalized_at, timestamptz '200000-01-01 UTC'), timestamptz '0001-01-01 UTC')
       end as finalized_at,
       progress::text as progress,
       result::text as result,
       error,
       paused as "paused!"
  from awa.job_statuses($1)
