-- Why: a job can wait for the outside. A callback is the right to end that waiting: an id that nobody can guess, bound to one
-- attempt. It outlives the attempt, so that an answer given before the job was parked is kept, and a payload reaches the next.
-- Previous binary: parks no job, and leaves callbacks alone.
-- Locks: none that others could hold; every object is new.

create table awa.callbacks (
    id          uuid        not null default gen_random_uuid() primary key,
    job_id      bigint      not null,
    run_lease   bigint      not null,
    created_at  timestamptz not null default now(),
    due_at      timestamptz not null,
    answered_at timestamptz,
    parked      boolean     not null default false,
    answer      text        collate "C",
    payload     jsonb,
    error       text,
    constraint plausible check (
        answer in ('complete', 'fail', 'resume', 'timeout', 'void')
        and (answer is null) = (answered_at is null)
    )
);

-- No foreign key: it would lock jobs that others claim and settle, and TRUNCATE of a segment would not be possible.
create index callbacks_job on awa.callbacks (job_id, run_lease);

create index callbacks_due on awa.callbacks (due_at, id) where parked and answered_at is null;

comment on table awa.callbacks is
    'What attempts wait for. Changed under the lock of the job row alone; goes with its job, or is swept up after it.';
comment on column awa.callbacks.id is 'Whoever knows it may answer: random, and shown to nobody but the handler.';
comment on column awa.callbacks.job_id is 'The job that opened it.';
comment on column awa.callbacks.run_lease is 'The attempt that opened it: an answer counts while the job is still under this lease.';
comment on column awa.callbacks.due_at is 'When a job that waits for it stops waiting.';
comment on column awa.callbacks.answered_at is 'When it was over; null while it is open.';
comment on column awa.callbacks.parked is 'The attempt has ended by waiting for it.';
comment on column awa.callbacks.answer is
    'complete, fail, resume: from outside; timeout; void: the job stopped waiting for another reason. Null while it is open.';
comment on column awa.callbacks.payload is 'What came with the answer; SQL null for nothing, which JSON null is not.';
comment on column awa.callbacks.error is 'Why the job failed, from outside.';
