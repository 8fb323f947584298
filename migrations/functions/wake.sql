-- Tell sleeping workers that a queue has work, if there are any.
--   p_queue  a queue that rows were just made available in, in this transaction
-- A sleeper holds the advisory lock of its queue exclusively, on the connection that it listens on. Whoever gets the lock
-- shared knows that nobody sleeps, and keeps it until the transaction ends, so that nobody falls asleep before the rows can
-- be seen. Waits for nobody. Writes no row; sends nothing while workers are awake.
-- Names are qualified instead of a setting of search_path, which would cost more than all the rest.
create or replace function awa.wake(p_queue text)
    returns void
    language plpgsql
as $wake$
begin
    if not pg_catalog.pg_try_advisory_xact_lock_shared(1096237385, pg_catalog.hashtext(p_queue)) then
        perform awa.announce('awa', pg_catalog.hashtext(p_queue)::pg_catalog.text);
    end if;
end
$wake$;
