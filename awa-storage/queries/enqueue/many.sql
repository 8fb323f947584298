-- Enqueue many jobs, in one statement: awa.enqueue_batch does the work and says what it locks.
--   One array a column, as the parameters of one.sql, all in the order of the jobs; an array of nulls may be left empty.
--   $1 kinds, $2 queues, $3 priorities, $4 args (texts of JSON), $5 run_ats, $6 delays in seconds, $7 max_attempts,
--   $8 timeouts in seconds, $9 tags (JSON arrays), $10 metadata, $11 trace contexts, $12 unique states,
--   $13 unique by queue, $14 unique by args, $15 unique fields (JSON arrays), $16 unique periods in seconds, $17 policies
-- Answers, in the order of the jobs, the id and the outcome: inserted, duplicate or replaced.
select enqueued.job_id as "job_id!",
       enqueued.outcome as "outcome!"
  from awa.enqueue_batch(
           $1::text[],
           $2::text[],
           $3::smallint[],
           $4::text[]::jsonb[],
           $5::timestamptz[],
           $6::double precision[],
           $7::smallint[],
           $8::double precision[],
           $9::jsonb[],
           $10::jsonb[],
           $11::text[],
           $12::smallint[],
           $13::boolean[],
           $14::boolean[],
           $15::jsonb[],
           $16::double precision[],
           $17::text[]
       ) with ordinality as enqueued (job_id, outcome, place)
 order by enqueued.place
