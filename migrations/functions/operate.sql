-- Do one thing to many jobs, wherever they are: the body of cancel, retry, run_now and delete.
--   p_action  cancel, retry, run_now or delete
--   p_ids     job ids in any order, repetitions allowed; an empty list is nobody, never everybody
--   p_reason  noted on a job that is cancelled; null: nothing is noted
-- Answers one row for each id, in the order given: what came of it, the state the job is in now (a deleted one: was in), and
-- with outcome duplicate the job that holds its unique key.
-- Locks the rows in id order, then their unique claims in key order. Whoever is in the way is waited for, for a second; then
-- those jobs alone are busy, and all others are done.
-- Index: the primary keys. No plan is pinned here: only arrays are joined.
create or replace function awa.operate(p_action text, p_ids bigint[], p_reason text)
    returns table (job_id bigint, outcome text, state awa.job_state, holder bigint)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set jit = off
    set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
    next_state constant awa.job_state := case p_action when 'cancel' then 'cancelled'
                                                       when 'delete' then null
                                                       else 'available' end;
    -- The locked rows, gone through twice: they are in a file rather than in memory if they are many.
    locked     refcursor;
    job        awa.jobs_hot;
    ids        bigint[] := '{}';
    states     awa.job_state[] := '{}';
    outcomes   text[] := '{}';
    keys       bytea[] := '{}';
    claims     text[] := '{}';
    holders    bigint[];
    verdict    record;
begin
    begin
        open locked scroll for select * from awa.lock_jobs(p_ids);
        move next from locked;
    exception when lock_not_available or deadlock_detected then
        open locked scroll for select * from awa.lock_free_jobs(p_ids);
    end;
    move absolute 0 from locked;
    loop
        fetch locked into job;
        exit when not found;
        ids := ids || job.id;
        states := states || job.state;
        outcomes := outcomes || awa.judge(p_action, job.state);
        keys := keys || job.unique_key;
        claims := claims || case when outcomes[cardinality(ids)] = 'applied'
            then awa.claim_of(job.unique_key, job.unique_states, job.state, next_state) else 'none' end;
    end loop;
    holders := awa.secure_keys(ids, keys, claims);
    move absolute 0 from locked;
    for verdict in
        select judged.* from unnest(outcomes, holders) with ordinality as judged (outcome, holder, place) order by judged.place
    loop
        fetch locked into job;
        continue when verdict.outcome <> 'applied';
        if verdict.holder is distinct from job.id then
            outcomes[verdict.place] := case when verdict.holder is null then 'busy' else 'duplicate' end;
        elsif p_action = 'delete' then
            perform awa.remove_job(job);
        else
            perform awa.place_job(job, awa.changed_by(p_action, job, p_reason));
            states[verdict.place] := next_state;
        end if;
    end loop;
    close locked;
    return query select * from awa.operated(p_ids, ids, outcomes, states, holders);
end
$$;
