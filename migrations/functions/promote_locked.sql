-- Promote deferred rows, and wake their queues: those that can go together, then those that go alone, then those that end.
--   p_together  where the rows are that take no unique key, in the order in which they are to go
--   p_alone     rows that must take one
--   p_spent     rows without attempts left
-- The caller holds the locks of all. promoted, refused and left_alone count rows: moved, ended with an error entry because
-- they cannot be moved, and left as they were. A batch that fails is tried again row by row, so that one bad row never stops
-- the rest. Index: none, by tuple id. Locks unique claims in key order, for as long as the lock_timeout of the caller.
create or replace function awa.promote_locked(
    p_together tid[],
    p_alone tid[],
    p_spent tid[],
    out promoted integer,
    out refused integer,
    out left_alone integer
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    here    tid;
    moved   record;
    woken   text[] := '{}';
    code    text;
    message text;
begin
    promoted := 0;
    refused := 0;
    left_alone := 0;
    if p_together is not null then
        begin
            moved := awa.promote_rows(p_together);
            promoted := moved.promoted;
            woken := moved.queues;
        exception when others then
            p_alone := p_together || p_alone;
        end;
    end if;
    foreach here in array coalesce(p_alone, '{}') loop
        begin
            moved := awa.promote_rows(array[here]);
            promoted := promoted + moved.promoted;
            woken := woken || moved.queues;
        exception when others then
            get stacked diagnostics code = returned_sqlstate, message = message_text;
            if awa.is_passing(code) then
                left_alone := left_alone + 1;
                -- Whoever holds a key may hold many: the rest of this pass does not wait for him.
                perform set_config('lock_timeout', '1ms', true);
            elsif awa.refuse_deferred(here, 'cancelled', 'cannot be promoted: ' || message) then
                refused := refused + 1;
            else
                left_alone := left_alone + 1;
            end if;
        end;
    end loop;
    foreach here in array coalesce(p_spent, '{}') loop
        if awa.refuse_deferred(here, 'failed', 'no attempts left when its time came') then
            refused := refused + 1;
        else
            left_alone := left_alone + 1;
        end if;
    end loop;
    perform awa.wake(queue.name) from (select distinct name from unnest(woken) as name order by name) as queue;
end
$$;
