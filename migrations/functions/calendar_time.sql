-- A time as every caller's calendar has it: in the years 1 to 9999, whatever somebody wrote. Null stays null.
--   p_time  the time
-- Pure: reads and locks nothing.
create or replace function awa.calendar_time(p_time timestamptz) returns timestamptz
    language sql immutable
    set search_path = pg_catalog, pg_temp
return case when p_time is not null then
           greatest(least(p_time, timestamptz '9999-12-31 UTC'), timestamptz '0001-01-01 UTC') end;

-- A time in a sentence for people.
--   p_time  the time
-- Pure: reads and locks nothing.
create or replace function awa.told_time(p_time timestamptz) returns text
    language sql stable
    set search_path = pg_catalog, pg_temp
return to_char(p_time at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"');

-- A number that was counted up to a limit, in a sentence for people.
--   p_number, p_is_all  what was counted, and whether that was all
-- Pure: reads and locks nothing.
create or replace function awa.told_number(p_number bigint, p_is_all boolean) returns text
    language sql immutable
    set search_path = pg_catalog, pg_temp
return case when p_is_all then p_number::text else p_number || ' or more' end;
