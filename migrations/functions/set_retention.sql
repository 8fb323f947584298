-- Say how long the ended jobs of one queue are kept, where awa.configure_ring says it for all others.
--   queue                         its name, literally; the queue need not have been used yet
--   completed, failed, cancelled  spans of 0 to 1000 years; null leaves what is set. awa.reset_retention takes all back.
-- Takes effect at once for readers of awa.jobs, and within seconds for what is deleted. A value that cannot be is refused with
-- 22023, and nothing is changed. Index: queues_pkey. Locks the row of the queue.
create or replace function awa.set_retention(
    queue text,
    completed interval default null,
    failed interval default null,
    cancelled interval default null
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    perform awa.check_name('queue', queue),
            awa.check_span('completed_retention', completed, '0', '1000 years', '0 to 1000 years'),
            awa.check_span('failed_retention', failed, '0', '1000 years', '0 to 1000 years'),
            awa.check_span('cancelled_retention', cancelled, '0', '1000 years', '0 to 1000 years');
    insert into awa.queues as setting (name, completed_retention, failed_retention, cancelled_retention)
    values (queue, completed, failed, cancelled)
        on conflict on constraint queues_pkey
        do update set completed_retention = coalesce(completed, setting.completed_retention),
                      failed_retention = coalesce(failed, setting.failed_retention),
                      cancelled_retention = coalesce(cancelled, setting.cancelled_retention);
end
$$;

-- Keep the ended jobs of one queue as long as awa.configure_ring says again. Answers whether something else was set.
--   queue  its name, literally; one that is not known has nothing set
-- Index: queues_pkey. Locks the row of the queue.
create or replace function awa.reset_retention(queue text) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    perform awa.check_name('queue', queue);
    update awa.queues as setting
       set completed_retention = null,
           failed_retention = null,
           cancelled_retention = null
     where setting.name = queue
       and (setting.completed_retention, setting.failed_retention, setting.cancelled_retention)
               is distinct from (null::interval, null::interval, null::interval);
    return found;
end
$$;
