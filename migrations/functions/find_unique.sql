-- Find the job that holds the unique key of such a job.
--   kind, args, queue, unique_by, run_at   as the options of awa.enqueue; without unique_by: the default rule
-- Answers its id, or null. Fails with 22023 for bad input.
-- Index: job_unique_claims_pkey. Locks nothing; the answer may be outdated when it arrives.
create or replace function awa.find_unique(
    kind text,
    args jsonb default '{}',
    queue text default 'default',
    unique_by jsonb default '{}',
    run_at timestamptz default null
)
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $find_unique$
#variable_conflict use_variable
declare
    wanted bytea;
    rule   record;
begin
    args := coalesce(args, '{}');
    queue := coalesce(queue, 'default');
    perform awa.check_job(kind, args, queue, 2, run_at, null, 25, null, null, null, null);
    rule := awa.read_unique_by(coalesce(nullif(unique_by, 'null'), '{}'), args);
    wanted := awa.unique_key(kind, case when rule.by_queue then queue end,
                             case when rule.by_args or rule.fields is not null then args end,
                             rule.fields, rule.period, coalesce(run_at, now()));
    return (select claim.job_id from awa.job_unique_claims as claim where claim.unique_key = wanted);
end
$find_unique$;
