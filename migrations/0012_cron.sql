-- Why: periodic jobs. A schedule says what is enqueued and when; the leader enqueues it. A tick is the memory that a time was
-- handled: it outlives the job, so that no time is handled twice, whoever leads.
-- Previous binary: leaves schedules alone; while it leads, none is due.
-- Locks: none that others could hold; every object is new.

create table awa.cron_schedules (
    name         text        collate "C" not null primary key,
    expression   text        not null,
    timezone     text        not null,
    job          jsonb       not null,
    missed       text        collate "C" not null,
    catch_up_max integer,
    overlap      text        collate "C" not null,
    owner        text        collate "C",
    revision     bigint      not null default 1,
    created_at   timestamptz not null default now(),
    changed_at   timestamptz not null default now(),
    paused_at    timestamptz,
    planned      boolean     not null default false,
    next_at      timestamptz,
    planned_at   timestamptz,
    fault        text,
    waiting_slot timestamptz,
    last_slot    timestamptz,
    last_job_id  bigint,
    last_outcome text        collate "C",
    constraint plausible check (
        missed in ('skip', 'coalesce', 'catch_up')
        and (missed = 'catch_up') = (catch_up_max is not null)
        and overlap in ('allow', 'skip', 'queue')
    )
);

comment on table awa.cron_schedules is 'Periodic jobs. Changed by awa.set_schedule and its kin, and by the leader as their times come.';
comment on column awa.cron_schedules.name is 'What tells it from all others.';
comment on column awa.cron_schedules.expression is 'A cron expression of five fields, or of six with seconds first.';
comment on column awa.cron_schedules.timezone is 'The zone on whose clocks it is read: a name of the IANA database.';
comment on column awa.cron_schedules.job is 'What is enqueued: a job as awa.enqueue_many takes it, without a due time.';
comment on column awa.cron_schedules.missed is 'What becomes of times that passed while nobody led: skip, coalesce or catch_up.';
comment on column awa.cron_schedules.catch_up_max is 'How many of them are made up, for catch_up.';
comment on column awa.cron_schedules.overlap is 'What happens while the job of an earlier time has not ended: allow, skip or queue.';
comment on column awa.cron_schedules.owner is 'The application that declares it in its code; null for one that was set at run time.';
comment on column awa.cron_schedules.revision is 'Larger after each change; what was planned for an older one is not carried out.';
comment on column awa.cron_schedules.created_at is 'When it was first set or declared.';
comment on column awa.cron_schedules.changed_at is 'When it last became another: by what is declared or set, by a pause or its end.';
comment on column awa.cron_schedules.paused_at is 'Since when it is paused; null while it is not. Times of a pause are not made up.';
comment on column awa.cron_schedules.planned is 'Whether next_at or fault has been worked out for this expression.';
comment on column awa.cron_schedules.next_at is 'The first time that was not handled yet; null: none, or not worked out.';
comment on column awa.cron_schedules.planned_at is
    'When next_at was worked out. Where that is yet to come, the clock was set back, and next_at is worked out anew.';
comment on column awa.cron_schedules.fault is 'Why no time can be worked out: an expression or a zone that cannot be read.';
comment on column awa.cron_schedules.waiting_slot is 'For overlap queue: the time whose job is enqueued once the last one has ended.';
comment on column awa.cron_schedules.last_slot is 'The last time that was handled.';
comment on column awa.cron_schedules.last_job_id is 'The job that overlap minds: the last enqueued, by hand only if the one before had ended. It may be gone.';
comment on column awa.cron_schedules.last_outcome is 'What became of last_slot; the words are those of awa.cron_ticks.outcome.';

create table awa.cron_ticks (
    schedule     text        collate "C" not null,
    slot         timestamptz not null,
    outcome      text        collate "C" not null,
    job_id       bigint,
    error        text,
    missed_since timestamptz,
    handled_at   timestamptz not null default now(),
    primary key (schedule, slot)
);

-- No foreign key: a tick outlives its job, and its schedule too.
create index cron_ticks_handled on awa.cron_ticks (handled_at);

comment on table awa.cron_ticks is 'One row for each time of a schedule that was handled. Kept for 90 days.';
comment on column awa.cron_ticks.schedule is 'The name of the schedule, which may be gone.';
comment on column awa.cron_ticks.slot is 'The time, or when somebody asked for a run.';
comment on column awa.cron_ticks.outcome is
    'fired; manual: somebody asked for it; duplicate: its unique key was held; overlap: an earlier job had not ended; waiting: '
    'for an earlier job to end; refused: the job cannot be enqueued; missed: left out.';
comment on column awa.cron_ticks.job_id is 'The job: the one that was enqueued, that holds the unique key, or that had not ended.';
comment on column awa.cron_ticks.error is 'Why it was refused.';
comment on column awa.cron_ticks.missed_since is 'With missed: the first of the times that were left out, of which slot is the last.';

create table awa.cron_owners (
    owner       text        collate "C" not null primary key,
    revision    bigint      not null,
    declared_at timestamptz not null default now()
);

comment on table awa.cron_owners is 'Applications that declare schedules in their code. An older revision of one changes nothing.';
comment on column awa.cron_ticks.handled_at is 'When it was handled.';
comment on column awa.cron_owners.owner is 'The name that it gives itself.';
comment on column awa.cron_owners.revision is 'The largest that was declared.';
comment on column awa.cron_owners.declared_at is 'When that was last.';
