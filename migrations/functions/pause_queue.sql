-- Pause a queue: from now on no worker claims from it; what runs goes on, and jobs are enqueued and promoted as ever.
--   queue  its name, literally; it need not have been used yet
-- True if that changed anything. A claim that has begun before this committed may still come back with jobs.
-- Index: the primary key. Locks the row of the queue.
create or replace function awa.pause_queue(queue text) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform awa.check_name('queue', queue);
    insert into awa.queues as setting (name, paused)
    values (queue, true)
        on conflict (name) do update
       set paused = true
     where not setting.paused;
    return found;
end
$$;

-- Let a paused queue go on; sleeping workers are told when this commits.
--   queue  its name, literally
-- True if it was paused.
-- Index: the primary key. Locks the row of the queue.
create or replace function awa.resume_queue(queue text) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform awa.check_name('queue', queue);
    update awa.queues as setting
       set paused = false
     where setting.name = queue
       and setting.paused;
    if found then
        perform awa.wake(queue);
        return true;
    end if;
    return false;
end
$$;
