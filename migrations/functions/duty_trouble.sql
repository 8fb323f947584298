-- What keeps a duty of maintenance from being done, in words that go on a sentence of awa.why: it fails, or who leads leaves it out.
-- Null where nothing is known to.
--   p_duty  its name
-- Index: primary keys. Locks nothing.
create or replace function awa.duty_trouble(p_duty text) returns text
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    select case when told.failures >= 3
                then format('; the duty %s has failed %s times in a row, last at %s: %s', told.name, told.failures,
                            awa.told_time(told.failed_at), left(told.error, 200))
                when told.left_out and exists (select from awa.current_leader() as led where led.term = told.term)
                then format('; the process that leads leaves out the duty %s', told.name) end
      from awa.duties as told
     where told.name = p_duty
$$;
