-- Tell workers that a queue has work, if some would hear of it.
--   p_queue  a queue that rows were just made available in, in this transaction
-- Advisory locks of the queue, each tried for and never waited for:
--   1096237385  the gate. A sleeper holds it exclusively, on the connection that it listens on. Whoever gets it shared knows that
--               nobody sleeps, and keeps it until the transaction ends, so that nobody falls asleep before the rows can be seen.
--   1096237387  held exclusively by the one worker that dozes: it polls every few milliseconds, and would like to know sooner.
--               Producers only ask whether it is taken. The try and its undoing are one expression, so that nothing can come
--               between them and leave a session lock behind.
--   1096237388  held by the transaction that tells the dozer, until it ends. NOTIFY takes a lock across the whole cluster at
--               commit; whoever comes meanwhile says nothing, rather than wait for it there.
-- Writes no row; sends nothing while workers are awake.
-- Names are qualified instead of a setting of search_path, which would cost more than all the rest.
create or replace function awa.wake(p_queue text)
    returns void
    language plpgsql
as $wake$
declare
    gate constant pg_catalog.int4 := pg_catalog.hashtext(p_queue);
begin
    if not pg_catalog.pg_try_advisory_xact_lock_shared(1096237385, gate) then
        perform awa.announce('awa', gate::pg_catalog.text);
    elsif not (pg_catalog.pg_try_advisory_lock_shared(1096237387, gate)
               and pg_catalog.pg_advisory_unlock_shared(1096237387, gate))
        and pg_catalog.pg_try_advisory_xact_lock(1096237388, gate)
    then
        perform awa.announce('awa', pg_catalog.concat(gate, ' doze'));
    end if;
end
$wake$;
