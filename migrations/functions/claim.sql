-- Claim available jobs of known kinds for one process: all its queues in one call, each up to its free capacity.
--   p_worker   the process
--   p_kinds    kinds it has handlers for
--   p_queues   its queues; p_wants: the free capacity of each
--   p_afters   four cursors a queue, one a priority: claims start beyond them (a hint; any value is safe)
--   p_skips    four masks a queue: bit g set leaves segment g out for that lane, unless it is the current one
--   p_found_queues (place in p_queues, from 1), p_found_priorities, p_found_segments, p_found_seqs
--              rows that a look found behind the cursor: claimed by seq before anything else of their lane
--   p_locks    whether to lock rows before they are changed
--   p_yields   queues, a flag each, that are passed by while another claim has their gate: nearly empty ones, whose few rows
--              are better left to one process than fought for by all
-- Inside a queue priority is strict, then found rows, then older segments first, then seq. Queues that are paused are
-- passed by. Rows that somebody has locked are passed by: a look finds them should they stay available.
-- A lock of its own is a fourth of what a claim logs. Without p_locks a claim that gets the gate of its queue takes rows whose
-- header names no transaction, which nobody has ever locked or changed, and changes them right away. Somebody who locks one in
-- these milliseconds lets it fail with 55P03, and so does a segment that is being emptied: it is to be repeated with p_locks. So
-- is one that came back short, since it passes by rows that were locked once and are free again.
-- Index: dispatch of each segment, all keys inside the lateral. Locks the gates of the queues, if the rows need no locks, and the
-- rows it claims, in dispatch order; waits for none, except without p_locks for a fiftieth of a second (lock_timeout, until the
-- transaction ends).
-- Every batch is listed in awa.active_claims by the statement that claims it.
do $install$
declare
    branch constant text := $branch$
        when @segment then
            return query
            with claimed as (
                update awa.jobs_hot_@segment as job
                   set state = 'running',
                       -- Whoever wrote an attempt as large as that: it must not fail the whole claim.
                       attempt = least(job.attempt + 1, 32767)::smallint,
                       run_lease = job.run_lease + 1,
                       attempted_at = now(),
                       attempted_by = p_worker,
                       -- A sum beyond the calendar would fail the whole claim, whoever wrote such a timeout: 1000 years do.
                       deadline_at = case when job.timeout is not null then
                           now() + make_interval(secs => least(greatest(
                               extract(epoch from job.timeout)::double precision, 0), 31622400000))
                       end
                 where job.state = 'available'
                   and job.ctid = any (array(
                       select chosen.tuple
                         from unnest(places, names, wants, gates) as asked (place, queue, want, alone)
                        cross join lateral (
                              select picked.tuple
                                from unnest(priorities) as lane (priority)
                               cross join lateral (
                                     select late.tuple
                                       from unnest(found_priorities, found_seqs) as found (priority, seq)
                                      cross join lateral (
                                            select waiting.ctid as tuple
                                              from awa.jobs_hot_@segment as waiting
                                             where waiting.queue = asked.queue
                                               and waiting.priority = found.priority
                                               and waiting.seq = found.seq
                                               and waiting.state = 'available'
                                               for update skip locked
                                      ) as late
                                      where found.priority = lane.priority
                                     union all
                                     select ahead.tuple
                                       from (select waiting.ctid as tuple
                                               from awa.jobs_hot_@segment as waiting
                                              where asked.alone
                                                and waiting.queue = asked.queue
                                                and waiting.priority = lane.priority
                                                and waiting.seq > p_afters[4 * asked.place - 4 + lane.priority]
                                                and waiting.state = 'available'
                                                and waiting.kind = any (p_kinds)
                                                and waiting.xmax = '0'
                                              order by waiting.seq
                                              limit asked.want) as ahead
                                     union all
                                     select ahead.tuple
                                       from (select waiting.ctid as tuple
                                               from awa.jobs_hot_@segment as waiting
                                              where not asked.alone
                                                and waiting.queue = asked.queue
                                                and waiting.priority = lane.priority
                                                and waiting.seq > p_afters[4 * asked.place - 4 + lane.priority]
                                                and waiting.state = 'available'
                                                and waiting.kind = any (p_kinds)
                                              order by waiting.seq
                                              limit asked.want
                                                for update skip locked) as ahead
                               ) as picked
                               limit asked.want
                        ) as chosen))
                returning job.*, job.ctid as tuple
            ),
            listed as (
                insert into awa.active_claims (part, segment, worker, deadline_at, job_ids, run_leases)
                select part, @segment::smallint, p_worker, min(claimed.deadline_at),
                       array_agg(claimed.id), array_agg(claimed.run_lease)
                  from claimed
                having count(*) > 0
            )
            select claimed.id, claimed.run_lease, claimed.segment, claimed.tuple::text, claimed.seq, claimed.priority,
                   claimed.queue, claimed.kind, claimed.attempt, claimed.max_attempts, claimed.snoozes,
                   claimed.args::text, claimed.metadata, claimed.tags, claimed.trace_context, claimed.progress,
                   claimed.created_at, claimed.run_at, claimed.attempted_at, claimed.deadline_at,
                   extract(epoch from claimed.timeout)::double precision
              from claimed;$branch$;
    branches text;
begin
    select string_agg(replace(branch, '@segment', segment::text), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace($function$
create or replace function awa.claim(
    p_worker uuid,
    p_kinds text[],
    p_queues text[],
    p_wants integer[],
    p_afters bigint[],
    p_skips smallint[],
    p_found_queues integer[],
    p_found_priorities smallint[],
    p_found_segments smallint[],
    p_found_seqs bigint[],
    p_locks boolean,
    p_yields boolean[]
)
    returns table (
        id bigint,
        run_lease bigint,
        segment smallint,
        tuple text,
        seq bigint,
        priority smallint,
        queue text,
        kind text,
        attempt smallint,
        max_attempts smallint,
        snoozes integer,
        args text,
        metadata jsonb,
        tags text[],
        trace_context text,
        progress jsonb,
        created_at timestamptz,
        run_at timestamptz,
        attempted_at timestamptz,
        deadline_at timestamptz,
        timeout_seconds double precision
    )
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $claim$
#variable_conflict use_column
declare
    ring             awa.ring;
    part             smallint;
    newest           integer;
    closed           integer := 0;
    -- A gate is a lock of its own, of which a server has few.
    gates_max        constant integer := 64;
    served           record;
    alone            boolean;
    step             record;
    got              integer;
    -- Of the queues that one statement serves: places in p_queues, names, how many jobs each, whether its gate is held.
    places           integer[] := '{}';
    names            text[] := '{}';
    wants            integer[] := '{}';
    gates            boolean[] := '{}';
    -- Of the queues that have more than the current segment to visit.
    apart            integer[] := '{}';
    apart_gates      boolean[] := '{}';
    place            integer;
    priorities       smallint[];
    found_priorities smallint[] := '{}';
    found_seqs       bigint[] := '{}';
begin
    select live.* into ring from awa.ring as live;
    part := ring.claims_part;
    newest := (ring.current % 8)::integer;
    for generation in ring.oldest..ring.current - 1 loop
        closed := closed | (1 << (generation % 8)::integer);
    end loop;
    for served in
        select given.place::integer as place, given.queue, given.want, given.yields,
               case when cardinality(p_queues) <= gates_max and (given.yields or not p_locks) then
                   pg_try_advisory_xact_lock(1096237386, hashtext(given.queue))
               end as gate
          from unnest(p_queues, p_wants, p_yields) with ordinality as given (queue, want, yields, place)
         where given.want > 0
           and not exists (select from awa.queues as setting where setting.name = given.queue and setting.paused)
    loop
        continue when served.yields and not served.gate;
        alone := not p_locks and served.gate is true;
        if closed & ~(p_skips[4 * served.place - 3] & p_skips[4 * served.place - 2]
                      & p_skips[4 * served.place - 1] & p_skips[4 * served.place]) = 0
            and not served.place = any (p_found_queues) then
            places := places || served.place;
            names := names || served.queue;
            wants := wants || served.want;
            gates := gates || alone;
        else
            apart := apart || served.place;
            apart_gates := apart_gates || alone;
        end if;
    end loop;
    if true = any (gates) or true = any (apart_gates) then
        perform set_config('lock_timeout', '20ms', true);
    end if;
    if cardinality(places) > 0 then
        priorities := '{1, 2, 3, 4}';
        case newest@branches
        end case;
    end if;
    for i in 1..cardinality(apart) loop
        place := apart[i];
        places := array[place];
        names := array[p_queues[place]];
        wants := array[p_wants[place]];
        gates := array[apart_gates[i]];
        for step in
            select * from awa.claim_steps(ring.oldest, ring.current, p_skips[4 * place - 3 : 4 * place],
                                          place, p_found_queues, p_found_priorities, p_found_segments)
        loop
            priorities := step.priorities;
            if cardinality(p_found_seqs) > 0 then
                select coalesce(array_agg(found.priority), '{}'), coalesce(array_agg(found.seq), '{}')
                  into found_priorities, found_seqs
                  from unnest(p_found_queues, p_found_priorities, p_found_segments, p_found_seqs)
                       as found (queue, priority, segment, seq)
                 where found.queue = place
                   and found.segment = step.place
                   and found.priority = any (priorities);
            end if;
            case step.place@branches
            end case;
            get diagnostics got = row_count;
            wants[1] := wants[1] - got;
            exit when wants[1] <= 0;
        end loop;
    end loop;
end
$claim$
$function$, '@branches', branches);
end
$install$;
