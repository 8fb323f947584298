-- What comes of attempts that end by waiting for a callback. Those that may wait are noted on their callback.
--   p_ids, p_leases  job ids and their run_leases, same order
--   p_outcomes       as for awa.settle_rows; only park is looked at
--   p_callbacks      what each of these wants to wait for
--   p_errors         error texts
-- Answers p_outcomes and p_errors with the outcomes that follow: park where it waits; release where the answer to resume has come
-- already, so that it does not wait; retry with an error where the callback is none that this attempt has opened, since nobody
-- could ever answer it. An attempt whose lease is lost stays as it is: awa.take will not find it.
-- Index: the primary keys. Locks the rows of the jobs in id order, then their callbacks.
create or replace function awa.judge_parks(
    p_ids bigint[],
    p_leases bigint[],
    p_callbacks uuid[],
    inout p_outcomes text[],
    inout p_errors text[]
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $$
declare
    job    awa.jobs_hot;
    place  integer;
    answer text;
begin
    for job in
        select locked.*
          from awa.lock_jobs(array(select asked.id
                                     from unnest(p_ids, p_outcomes) as asked (id, outcome)
                                    where asked.outcome = 'park')) as locked
    loop
        place := array_position(p_ids, job.id);
        continue when job.run_lease <> p_leases[place] or job.state <> 'running';
        update awa.callbacks as own
           set parked = true
         where own.id = p_callbacks[place]
           and own.job_id = job.id
           and own.run_lease = job.run_lease
        returning own.answer into answer;
        if not found then
            p_outcomes[place] := 'retry';
            p_errors[place] := format('it wanted to wait for callback %s, which this attempt has not opened',
                                      coalesce(p_callbacks[place]::text, 'null'));
        elsif answer is not null then
            p_outcomes[place] := 'release';
        end if;
    end loop;
end
$$;
