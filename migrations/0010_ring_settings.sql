-- Why: settings of the ring that operators change at run time, and what it waits for before a segment is emptied: TRUNCATE
-- takes effect for every snapshot, so those that still see a row where it lay before it moved on are waited for.
-- Previous binary: goes on; a segment that waits for snapshots is an answer that it does not know, and it asks again.
-- Locks: ACCESS EXCLUSIVE on awa.ring for a moment.

alter table awa.ring
    add column segment_age_max   interval check (segment_age_max > '0'),
    add column snapshot_patience interval not null default '5 minutes' check (snapshot_patience >= '0'),
    add column expected_bytes_max bigint not null default 68719476736 check (expected_bytes_max >= 0),
    add column stuck_since       timestamptz,
    add column clean_generation  bigint,
    add column clean_since       timestamptz,
    add column clean_waits_for   text[];

comment on column awa.ring.segment_age_max is
    'A segment that has been current for so long is closed; null: a sixth of the retention of completed jobs.';
comment on column awa.ring.snapshot_patience is
    'How long emptying a segment waits for transactions that are older than the last row that left it.';
comment on column awa.ring.expected_bytes_max is
    'awa.status warns when ended jobs, kept as long as they are, are expected to take more; 0: never.';
comment on column awa.ring.stuck_since is 'Since when there has been a stuck_reason; null when nothing is in the way.';
comment on column awa.ring.clean_generation is 'The generation that was found to hold nothing but expired rows; null for none.';
comment on column awa.ring.clean_since is 'When that was.';
comment on column awa.ring.clean_waits_for is 'The transactions open then, by virtual transaction id, whose snapshots may be older.';
