-- Call off the job that holds the unique key of such a job, whichever that is by then.
--   kind, args, queue, unique_by, run_at   as awa.find_unique
--   reason                                 as awa.cancel
-- Answers what awa.cancel answers, with the id of the job; not_found without an id where nobody holds the key.
-- Fails with 22023 for bad input. Index and locks: awa.find_unique, then awa.cancel.
-- Loses: where the key goes to another job meanwhile, that one is called off instead; AWA01 after rounds_max rounds.
create or replace function awa.cancel_unique(
    kind text,
    args jsonb default '{}',
    queue text default 'default',
    unique_by jsonb default '{}',
    run_at timestamptz default null,
    reason text default null,
    out job_id bigint,
    out outcome text,
    out state awa.job_state,
    out holder bigint
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $cancel_unique$
#variable_conflict use_variable
declare
    rounds_max constant integer := 100;
begin
    for round in 1..rounds_max loop
        job_id := awa.find_unique(kind, args, queue, unique_by, run_at);
        if job_id is null then
            outcome := 'not_found';
            return;
        end if;
        select answer.outcome, answer.state, answer.holder
          into outcome, state, holder
          from awa.cancel(job_id, reason) as answer;
        -- A job that has ended since it was found may have given its key to another.
        if outcome not in ('refused', 'not_found')
            or awa.find_unique(kind, args, queue, unique_by, run_at) is not distinct from job_id
        then
            return;
        end if;
    end loop;
    raise exception 'a unique key changed hands % times while it was looked up', rounds_max
        using errcode = 'AWA01', schema = 'awa', table = 'job_unique_claims';
end
$cancel_unique$;
