-- Warnings about what is open and holds something up, a step of awa.warnings: for ten minutes, for a million transactions, or as a
-- slot that nobody reads. The oldest ten.
--   p_holders  as in awa.status
--   p_at       when that was
-- Pure: reads and locks nothing.
create or replace function awa.warn_of_holders(p_holders jsonb, p_at timestamptz) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    patience constant interval := '10 minutes';
    xids_max constant integer := 1000000;
    told_max constant integer := 10;
    found    jsonb := '[]';
    one      record;
begin
    for one in
        select told.holder, told.holder ->> 'what' as what, told.holder ->> 'name' as name, told.holder ->> 'pid' as pid
          from jsonb_array_elements(p_holders) with ordinality as told (holder, place)
         where jsonb_array_length(told.holder -> 'holds') > 0
           and ((told.holder ->> 'since')::timestamptz < p_at - patience
                or (told.holder ->> 'xids')::bigint >= xids_max
                or (told.holder ->> 'what' = 'slot' and told.holder ->> 'state' = 'inactive'))
         order by told.place
         limit told_max
    loop
        found := found || awa.warn(true, 'holder',
            format('%s holds up %s%s',
                   case one.what when 'session' then format('the session %s%s', one.pid, ' of ' || (one.holder ->> 'user'))
                                 when 'prepared' then format('the prepared transaction %s', one.name)
                                 when 'slot' then format('the %s replication slot %s', one.holder ->> 'state', one.name)
                                 else format('the replica %s', coalesce(one.holder ->> 'application', one.pid)) end,
                   (select string_agg(case held.word when 'jobs' then 'jobs that it has changed'
                                                     when 'ring' then 'the emptying of segments'
                                                     when 'rows' then 'the cleaning up of rows in all tables'
                                                     else 'the cleaning up of system tables' end, ' and ' order by held.place)
                      from jsonb_array_elements_text(one.holder -> 'holds') with ordinality as held (word, place)),
                   ' since ' || awa.told_time((one.holder ->> 'since')::timestamptz)),
            case one.what when 'session' then format('end it if nobody needs it: select pg_terminate_backend(%s)', one.pid)
                          when 'prepared' then 'commit or roll it back: commit prepared, rollback prepared'
                          when 'slot' then 'let its reader go on, or drop it: pg_drop_replication_slot'
                          else 'end its long queries, or do without hot_standby_feedback' end);
    end loop;
    return found;
end
$$;
