-- The answer of awa.operate: what came of each job, in the order in which it was asked for.
--   p_asked  job ids, repetitions allowed
--   p_ids, p_outcomes, p_states, p_holders  what is known, one entry a job; a job that is there and not among them is busy
-- Reads the job tables for the state of those alone. Large lists are joined, so loops in loops are off.
create or replace function awa.operated(
    p_asked bigint[],
    p_ids bigint[],
    p_outcomes text[],
    p_states awa.job_state[],
    p_holders bigint[]
)
    returns table (job_id bigint, outcome text, state awa.job_state, holder bigint)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set enable_nestloop = off
    set jit = off
as $$
begin
    return query
    select asked.id,
           case when known.id is not null then known.outcome
                when awa.state_of(asked.id) is null then 'not_found'
                else 'busy' end,
           case when known.id is not null then known.state else awa.state_of(asked.id) end,
           case when known.outcome = 'duplicate' then known.holder end
      from unnest(p_asked) with ordinality as asked (id, place)
      left join unnest(p_ids, p_outcomes, p_states, p_holders) as known (id, outcome, state, holder)
        on known.id = asked.id
     order by asked.place;
end
$$;
