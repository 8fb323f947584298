-- Why: what the duties of maintenance did last and how it went: so far only the process that leads knows that.
-- Previous binary: while it leads nothing is told, and after two minutes its duties look late.
-- Locks: none that others could hold; the object is new.

-- Rewritten with each renewal of the lease, in place: nothing that changes is indexed.
create table awa.duties (
    name         text        collate "C" not null primary key,
    holder       uuid        not null,
    term         bigint,
    left_out     boolean     not null default false,
    passes       bigint      not null default 0,
    changed      bigint      not null default 0,
    failures     bigint      not null default 0,
    began_at     timestamptz,
    ended_at     timestamptz,
    took         interval,
    last_changed bigint,
    is_caught_up boolean,
    next_at      timestamptz,
    failed_at    timestamptz,
    walk_segment smallint,
    walk_after   bigint,
    walked_at    timestamptz,
    finds        bigint,
    told_at      timestamptz not null default now(),
    error        text
) with (fillfactor = 20);

comment on table awa.duties is
    'What each duty of maintenance did last: written by the leader as it renews its lease, and at the end of a tick.';
comment on column awa.duties.name is 'The duty, as awa maintain --without calls it.';
comment on column awa.duties.holder is 'The process that told this.';
comment on column awa.duties.term is 'The term in which it told; null for a tick, which nobody is elected for.';
comment on column awa.duties.left_out is 'The process that leads does not do this duty, by its configuration.';
comment on column awa.duties.passes is 'Passes that ended well, in this term or tick.';
comment on column awa.duties.changed is 'Rows, batches or segments that they changed.';
comment on column awa.duties.failures is 'Passes that have failed since the last that ended well.';
comment on column awa.duties.began_at is 'When the last pass began. Later than ended_at: it goes on.';
comment on column awa.duties.ended_at is 'When the last pass ended, well or not.';
comment on column awa.duties.took is 'How long that one took.';
comment on column awa.duties.last_changed is 'What that one changed; null if it failed.';
comment on column awa.duties.is_caught_up is 'Whether it left nothing that could be done at once; null if it failed.';
comment on column awa.duties.next_at is 'When the next pass was meant to begin; null after a tick.';
comment on column awa.duties.failed_at is 'When a pass failed last, in whatever term.';
comment on column awa.duties.error is 'With what, cut to 1000 characters.';
comment on column awa.duties.walk_segment is 'Of the audit: the segment that it walks through; -1 for the parked rows.';
comment on column awa.duties.walk_after is 'Of the audit: the job behind which it goes on.';
comment on column awa.duties.walked_at is 'Of the audit: when it last reached the end of all segments.';
comment on column awa.duties.finds is 'Of the audit: bugs that it found, in this term or tick.';
comment on column awa.duties.told_at is 'When this was written.';
