-- Forget times that were handled more than 90 days ago, the oldest first.
--   p_batch  how many at most
-- Answers how many. One that is locked is passed by. Index: cron_ticks_handled. Locks the rows.
create or replace function awa.prune_ticks(p_batch integer) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    pruned integer;
begin
    delete from awa.cron_ticks as tick
     where tick.ctid = any (array(
               select old.ctid
                 from awa.cron_ticks as old
                where old.handled_at < now() - interval '90 days'
                order by old.handled_at
                limit p_batch
                  for update skip locked));
    get diagnostics pruned = row_count;
    return pruned;
end
$$;
