-- Say how long the ended jobs of one queue are kept. All three at once: null is what awa.configure_ring says.
--   queue                         its name, literally; the queue need not have been used yet
--   completed, failed, cancelled  spans of 0 to 1000 years
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
        do update set completed_retention = completed,
                      failed_retention = failed,
                      cancelled_retention = cancelled;
end
$$;
