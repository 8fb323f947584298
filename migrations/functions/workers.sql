-- Who is alive. A process that has no row, or one not touched for long, is taken for dead: its attempts are rescued.

-- Enter a process, or what has changed about it, and create the settings rows of the queues it serves.
--   p_id  fresh for every process; the other parameters as in awa.workers
-- Index: primary keys. Locks the process's row.
create or replace function awa.register_worker(
    p_id uuid,
    p_name text,
    p_host text,
    p_pid integer,
    p_version text,
    p_queues text[],
    p_kinds text[]
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into awa.workers as worker (id, name, host, pid, version, queues, kinds)
    values (p_id, p_name, p_host, p_pid, p_version, p_queues, p_kinds)
        on conflict (id) do update
       set name = excluded.name,
           host = excluded.host,
           pid = excluded.pid,
           version = excluded.version,
           queues = excluded.queues,
           kinds = excluded.kinds,
           last_seen_at = now();
    insert into awa.queues (name)
    select served.name
      from unnest(p_queues) as served (name)
     where not exists (select 1 from awa.queues as known where known.name = served.name collate "C")
     order by served.name
        on conflict (name) do nothing;
end
$$;

-- A sign of life. False where the row is gone: the process registers again.
-- Index: primary key. Locks the process's row.
create or replace function awa.beat_worker(p_id uuid) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update awa.workers as worker set last_seen_at = now() where worker.id = p_id;
    return found;
end
$$;

-- Take a process out that stops in good order: what it may still hold is rescued at once. False where it had no row.
-- Index: primary key. Locks the process's row.
create or replace function awa.unregister_worker(p_id uuid) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    delete from awa.workers as worker where worker.id = p_id;
    return found;
end
$$;

-- Forget processes that were not seen for long. Their attempts have been rescued by then, or will be: no row is dead too.
--   p_seconds  how long; p_limit: how many at most
-- Answers how many. Reads a small table through; writes nothing where none is due. Locks the rows, waiting for none.
create or replace function awa.forget_workers(p_seconds double precision, p_limit integer) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    forgotten integer;
begin
    delete from awa.workers as worker
     where worker.id in (
           select silent.id
             from awa.workers as silent
            where silent.last_seen_at < now() - make_interval(secs => p_seconds)
            order by silent.id
            limit p_limit
              for update skip locked);
    get diagnostics forgotten = row_count;
    return forgotten;
end
$$;

-- Every process that has a row, oldest first, and for how many seconds it has been silent.
-- Reads a small table through. Locks nothing.
create or replace function awa.list_workers()
    returns table (
        id uuid,
        name text,
        host text,
        pid integer,
        version text,
        queues text[],
        kinds text[],
        started_at timestamptz,
        last_seen_at timestamptz,
        silent_for double precision
    )
    language sql stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select worker.id, worker.name, worker.host, worker.pid, worker.version, worker.queues, worker.kinds, worker.started_at,
           worker.last_seen_at, extract(epoch from now() - worker.last_seen_at)::double precision
      from awa.workers as worker
     order by worker.started_at, worker.id
$$;
