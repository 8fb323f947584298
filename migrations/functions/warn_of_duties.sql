-- Warnings about duties of maintenance, a step of awa.warnings: those that fail, then those that are late.
--   p_duties  as in awa.status
--   p_is_led  whether somebody leads: where nobody does, and no tick either, that says it all
-- Pure: reads and locks nothing.
create or replace function awa.warn_of_duties(p_duties jsonb, p_is_led boolean) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    -- Once may be a restart of the database.
    failures_min constant integer := 3;
    found        jsonb := '[]';
    one          record;
begin
    for one in
        select told.duty, told.duty ->> 'name' as name, told.duty -> 'backlog' as backlog, rated.fails,
               (told.duty -> 'is_late')::boolean and not rated.fails
                   and (p_is_led or told.duty -> 'term' = 'null' and told.duty -> 'holder' <> 'null') as is_late
          from jsonb_array_elements(p_duties) with ordinality as told (duty, place)
         cross join lateral (select (told.duty ->> 'failures')::bigint >= failures_min as fails) as rated
         order by not rated.fails, told.place
    loop
        found := found
            || awa.warn(one.fails, 'duty_failing',
                        format('the duty %s has failed %s times in a row, last at %s: %s', one.name, one.duty ->> 'failures',
                               awa.told_time((one.duty ->> 'failed_at')::timestamptz), one.duty ->> 'error'),
                        'mend what the error names; the duty is tried again and again')
            || awa.warn(one.is_late, 'duty_late',
                        format('the duty %s is late: its last pass ended %s, and %s', one.name,
                               coalesce('at ' || awa.told_time((one.duty ->> 'ended_at')::timestamptz), 'never'),
                               case when (one.backlog ->> 'waiting')::bigint > 0
                                    then format('%s wait for it since %s',
                                                awa.told_number((one.backlog ->> 'waiting')::bigint,
                                                                (one.backlog -> 'is_all')::boolean),
                                                awa.told_time((one.backlog ->> 'since')::timestamptz))
                                    else 'nothing is known to wait for it' end),
                        case when (one.duty -> 'is_left_out')::boolean
                             then 'the process that leads leaves it out: see that another does it'
                             when not p_is_led then 'let ticks come more often, or give them a larger budget'
                             else 'look at the log of the process that leads; a database under load makes all duties late' end);
    end loop;
    return found;
end
$$;
