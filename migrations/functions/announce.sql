-- Notify, unless that could fail.
--   p_channel, p_payload  both short
-- All databases of a server share one queue of notifications. When a session somewhere keeps it from being emptied and it is
-- full, a transaction that notifies cannot commit. Nothing here depends on a notification, so beyond nine tenths none is sent:
-- jobs are enqueued, cancelled and rescued whoever has filled the queue.
-- Reads and locks no table. Names are qualified instead of a setting of search_path, which would cost more than all the rest.
create or replace function awa.announce(p_channel text, p_payload text)
    returns void
    language plpgsql
as $announce$
declare
    usage_max constant pg_catalog.float8 := 0.9;
begin
    if pg_catalog.pg_notification_queue_usage() operator(pg_catalog.<) usage_max then
        perform pg_catalog.pg_notify(p_channel, p_payload);
    end if;
end
$announce$;
