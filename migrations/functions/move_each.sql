-- awa.move_rows, at once where it can be, else row by row: one bad row never stops the rest.
--   p_segment, p_tuples  as for awa.move_rows
-- Answers how many rows moved; those that cannot be moved stay where they are, and are found again.
create or replace function awa.move_each(p_segment smallint, p_tuples tid[]) returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    here  tid;
    moved bigint := 0;
begin
    if cardinality(p_tuples) = 0 then
        return 0;
    end if;
    begin
        return awa.move_rows(p_segment, p_tuples);
    exception when others then
        foreach here in array p_tuples loop
            begin
                moved := moved + awa.move_rows(p_segment, array[here]);
            exception when others then
                continue;
            end;
        end loop;
    end;
    return moved;
end
$$;
