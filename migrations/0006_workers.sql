-- Why: who is alive, which attempts they hold, and who leads.
-- Previous binary: there is none.
-- Locks: none that others could hold; every object is new.

create table awa.workers (
    id           uuid        not null primary key,
    name         text        not null,
    host         text        not null,
    pid          integer     not null,
    version      text        not null,
    queues       text[]      not null,
    kinds        text[]      not null,
    started_at   timestamptz not null default now(),
    last_seen_at timestamptz not null default now()
) with (fillfactor = 50);

comment on table awa.workers is 'One row a live process. Ownership goes by id, which is fresh for each process, never by name or host.';

create sequence awa.active_claim_id as bigint;

-- Insert-only; emptied by TRUNCATE of one part after the other, the few rows still needed copied over.
create table awa.active_claims (
    id          bigint      not null default nextval('awa.active_claim_id'),
    part        smallint    not null,
    segment     smallint    not null,
    worker      uuid        not null,
    claimed_at  timestamptz not null default now(),
    deadline_at timestamptz,
    job_ids     bigint[]    not null,
    run_leases  bigint[]    not null
) partition by list (part);

comment on table awa.active_claims is
    'One row a claimed batch: the index of running jobs. A row may outlive its attempts, an attempt never its row.';
comment on column awa.active_claims.segment is 'Where the rows were claimed. A hint: a move does not change it.';
comment on column awa.active_claims.deadline_at is 'The earliest deadline in the batch; null when none has one.';

-- A batch of 256 is about 4 kB: kept in line rather than compressed and cut up.
create table awa.active_claims_0 partition of awa.active_claims for values in (0)
    with (toast_tuple_target = 8160, autovacuum_enabled = false);

create table awa.active_claims_1 partition of awa.active_claims for values in (1)
    with (toast_tuple_target = 8160, autovacuum_enabled = false);

create table awa.leader (
    duty       text        collate "C" not null primary key,
    holder     uuid        not null,
    term       bigint      not null,
    elected_at timestamptz not null default now(),
    renewed_at timestamptz not null default now(),
    expires_at timestamptz not null
) with (fillfactor = 50);

comment on table awa.leader is 'Who leads. A term is guarded like a run_lease: (holder, term) must match.';
