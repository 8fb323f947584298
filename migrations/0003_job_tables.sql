-- Why: the two planes. jobs_hot holds what is dispatched, runs or has ended; scheduled_jobs holds what waits for a time.
-- Column order: what never changes comes first, then what an attempt changes, side by side, then texts, then
-- the documents that change. An update is logged from its first to its last changed byte, so neighbours are cheap.
-- One check a table: PostgreSQL builds each check's expression anew in every statement that writes.
-- Previous binary: there is none.
-- Locks: none that others could hold; every object is new.

create table awa.jobs_hot (
    id             bigint        not null default nextval('awa.job_id'),
    seq            bigint        not null default nextval('awa.job_seq'),
    created_at     timestamptz   not null default now(),
    run_at         timestamptz   not null default now(),
    timeout        interval     ,
    segment        smallint      not null default awa.current_segment(),
    priority       smallint      not null default 2,
    max_attempts   smallint      not null default 25,
    unique_states  smallint,
    run_lease      bigint        not null default 0,
    attempted_at   timestamptz,
    attempted_by   uuid,
    heartbeat_at   timestamptz,
    deadline_at    timestamptz,
    finalized_at   timestamptz,
    state          awa.job_state not null default 'available',
    attempt        smallint      not null default 0,
    snoozes        integer       not null default 0,
    errors_dropped integer,
    kind           text          collate "C" not null,
    queue          text          collate "C" not null default 'default',
    args           jsonb         not null default '{}',
    metadata       jsonb,
    tags           text[],
    trace_context  text,
    unique_key     bytea,
    progress       jsonb,
    result         jsonb,
    errors         jsonb
) partition by list (segment);

comment on table awa.jobs_hot is
    'Hot plane. Segments 0 to 7 are a ring emptied by TRUNCATE; segment -1 (parked) keeps rows that stop.';
comment on column awa.jobs_hot.seq is 'Drawn afresh on every entry into the plane; the order of dispatch inside a lane.';
comment on column awa.jobs_hot.run_lease is 'Counts claims over the whole life of the job and never falls: the fencing number.';
comment on column awa.jobs_hot.errors is 'Newest last, at most 20: {at, attempt, lease, worker, source, error}.';

create table awa.scheduled_jobs (
    id             bigint        not null default nextval('awa.job_id') primary key,
    created_at     timestamptz   not null default now(),
    run_at         timestamptz   not null,
    timeout        interval     ,
    priority       smallint      not null default 2,
    max_attempts   smallint      not null default 25,
    unique_states  smallint,
    run_lease      bigint        not null default 0,
    attempted_at   timestamptz,
    attempted_by   uuid,
    heartbeat_at   timestamptz,
    deadline_at    timestamptz,
    finalized_at   timestamptz,
    state          awa.job_state not null default 'scheduled',
    attempt        smallint      not null default 0,
    snoozes        integer       not null default 0,
    errors_dropped integer,
    kind           text          collate "C" not null,
    queue          text          collate "C" not null default 'default',
    args           jsonb         not null default '{}',
    metadata       jsonb,
    tags           text[],
    trace_context  text,
    unique_key     bytea,
    progress       jsonb,
    result         jsonb,
    errors         jsonb,
    constraint plausible check (
        state in ('scheduled', 'retryable')
        and priority between 1 and 4
        and max_attempts between 1 and 1000
        and (unique_key is null) = (unique_states is null)
    )
) with (autovacuum_vacuum_scale_factor = 0.05);

comment on table awa.scheduled_jobs is 'Deferred plane: jobs that wait for their time (scheduled) or for a retry (retryable).';

create index scheduled_jobs_due on awa.scheduled_jobs (run_at, id);

do $children$
declare
    child text;
begin
    for segment in 0..7 loop
        child := format('awa.jobs_hot_%s', segment);
        -- Fillfactor: three versions of a row fit on its page although nothing can be pruned. No autovacuum: TRUNCATE is
        -- the only cleanup, but the TOAST table of a long job's progress has to be vacuumed in between.
        execute format(
            'create table %s partition of awa.jobs_hot (constraint plausible check (
                 state in (''available'', ''running'', ''completed'')
                 and priority between 1 and 4
                 and max_attempts between 1 and 1000
                 and (unique_key is null) = (unique_states is null)
             )) for values in (%s)
                 with (fillfactor = 30, autovacuum_enabled = false, toast.autovacuum_enabled = true)', child, segment);
        execute format('alter table %s alter segment set default %s, add primary key (id)', child, segment);
        execute format('create index jobs_hot_%s_dispatch on %s (queue, priority, seq)', segment, child);
    end loop;
end
$children$;

create table awa.jobs_hot_parked partition of awa.jobs_hot (
    constraint plausible check (
        state in ('waiting_external', 'completed', 'failed', 'cancelled')
        and priority between 1 and 4
        and max_attempts between 1 and 1000
        and (unique_key is null) = (unique_states is null)
    )
) for values in (-1);

alter table awa.jobs_hot_parked alter segment set default -1, add primary key (id);

create index jobs_hot_parked_retention on awa.jobs_hot_parked (state, finalized_at, id);

comment on table awa.jobs_hot_parked is
    'Rows that stop: waiting for the outside, failed, cancelled, and completed ones kept longer than the ring spans.';
