-- Why: which segments of the ring are in use, and which server incarnation the numbers in memory belong to.
-- Previous binary: there is none.
-- Locks: none that others could hold; every object is new.

create table awa.ring (
    singleton            boolean       not null default true primary key check (singleton),
    oldest               bigint        not null default 0,
    current              bigint        not null default 0,
    -- When the segment became current, and when it ceased to be; one entry a segment, by segment number plus one.
    opened_at            timestamptz[] not null,
    closed_at            timestamptz[] not null,
    claims_part          smallint      not null default 0 check (claims_part in (0, 1)),
    claims_switched_at   timestamptz   not null default now(),
    completed_retention  interval      not null default '24 hours' check (completed_retention >= '0'),
    failed_retention     interval      not null default '7 days' check (failed_retention >= '0'),
    cancelled_retention  interval      not null default '7 days' check (cancelled_retention >= '0'),
    segment_bytes_max    bigint        not null default 4294967296 check (segment_bytes_max > 0),
    stuck_reason         text,
    check (oldest >= 0 and current - oldest between 0 and 7)
) with (fillfactor = 50);

comment on table awa.ring is
    'One row: generations oldest to current are live; generation g is kept in segment g modulo 8. Also the settings of retention.';
comment on column awa.ring.claims_part is 'The part of active_claims that claims write to.';
comment on column awa.ring.stuck_reason is 'Why the oldest segment could not be emptied when it was last tried; null when nothing is in the way.';

insert into awa.ring (opened_at, closed_at)
values (array_fill(now(), array[8]), array_fill(null::timestamptz, array[8]));

-- Emptied by a crash, a failover and a restore, and by nothing else: its change tells workers to forget what they know.
create unlogged table awa.incarnation (
    singleton boolean not null default true primary key check (singleton),
    id        uuid    not null default gen_random_uuid()
);

comment on table awa.incarnation is
    'One row that a crash or failover removes (PostgreSQL documentation, CREATE TABLE, UNLOGGED): tells it from a reconnect.';

create table awa.lane_marks (
    queue    text     collate "C" not null,
    priority smallint not null,
    seq      bigint   not null,
    primary key (queue, priority)
) with (fillfactor = 50);

comment on table awa.lane_marks is
    'Per lane a bound below which no row is or can become available: where a new worker starts to look.';

create table awa.queues (
    name                text        collate "C" not null primary key check (length(name) between 1 and 128),
    paused              boolean     not null default false,
    completed_retention interval    check (completed_retention >= '0'),
    failed_retention    interval    check (failed_retention >= '0'),
    cancelled_retention interval    check (cancelled_retention >= '0'),
    created_at          timestamptz not null default now()
);

comment on table awa.queues is
    'Settings of queues. A row appears when a worker first serves the queue or an operator first sets something.';

-- For inserts that name no segment: those who write the parent table directly.
create function awa.current_segment() returns smallint
    language sql stable
    set search_path = pg_catalog, pg_temp
return (select (current % 8)::smallint from awa.ring);
