-- Why: the states of a job, and the two counters that number jobs and their entries into the ring.
-- Previous binary: there is none.
-- Locks: none that others could hold; every object is new.

-- Not "if not exists": that asks for the right to create schemas even where an administrator has made this one.
do $schema$
begin
    if to_regnamespace('awa') is null then
        create schema awa;
    end if;
end
$schema$;

revoke all on schema awa from public;

comment on schema awa is 'Awa job queue. Read awa.jobs; write through the functions.';

-- The order of the labels is part of the contract: docs, tests and status pages list states in it.
create type awa.job_state as enum (
    'scheduled',
    'available',
    'running',
    'waiting_external',
    'retryable',
    'completed',
    'failed',
    'cancelled'
);

create sequence awa.job_id as bigint;

comment on sequence awa.job_id is 'Ids of jobs. Never reused.';

-- CACHE 1 is what makes dispatch exact: a session that kept numbers back could hand out a low one late.
create sequence awa.job_seq as bigint cache 1;

comment on sequence awa.job_seq is
    'Order of entry into the ring: a fresh number for each entry. CACHE must stay 1 and nobody may set a value.';
