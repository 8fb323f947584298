-- Claim jobs for one process, all its queues in one call: see migrations/functions/claim.sql for the rules.
-- $1 worker, $2 kinds, $3 queues, $4 free capacity of each, $5 cursors, $6 skip masks, $7..$10 found rows, $11 whether to lock first,
-- $12 which queues to pass by while another process claims from them.
-- What a producer may write and Rust cannot hold, as -infinity or the number 1e999, must not fail the whole batch: times
-- are clamped, documents come as texts, each to be read by itself, and tags are counted from 1, in one dimension.
-- Index: dispatch of each segment. Locks the claimed rows in dispatch order, skips locked ones.
select id as "id!",
       run_lease as "run_lease!",
       segment as "segment!",
       tuple as "tuple!",
       seq as "seq!",
       priority as "priority!",
       queue as "queue!: awa_model::QueueName",
       kind as "kind!: awa_model::Kind",
       attempt as "attempt!",
       max_attempts as "max_attempts!",
       snoozes as "snoozes!",
       args as "args!",
       metadata::text as metadata,
       case when tags is not null then array(select unnest(tags)) end as "tags: Vec<Option<String>>",
       trace_context,
       progress::text as progress,
       greatest(least(created_at, timestamptz '200000-01-01 UTC'), timestamptz '0001-01-01 UTC') as "created_at!",
       greatest(least(run_at, timestamptz '200000-01-01 UTC'), timestamptz '0001-01-01 UTC') as "run_at!",
       attempted_at as "attempted_at!",
       deadline_at,
       timeout_seconds
  from awa.claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
