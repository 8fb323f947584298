-- Tell a worker that a running attempt was taken from it, once the transaction commits.
--   p_worker       who runs it; null: nobody to tell
--   p_id, p_lease  the attempt
--   p_why          cancelled, deleted, answered or rescued
-- One short notification on the worker's own channel, so that it can stop the handler at once. Nothing depends on it: a worker
-- that does not listen learns the same from its next heartbeat.
-- Reads and locks no table.
create or replace function awa.tell_worker(p_worker uuid, p_id bigint, p_lease bigint, p_why text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if p_worker is not null then
        perform awa.announce('awa_' || replace(p_worker::text, '-', ''), concat_ws(' ', p_id, p_lease, p_why));
    end if;
end
$$;
