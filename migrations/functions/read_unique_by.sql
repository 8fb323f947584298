-- Read a rule of uniqueness: the option unique_by of awa.enqueue and its kin, as docs/producers.md describes it.
--   p_unique_by  a JSON object; null or JSON null: not unique
--   p_args       the args of the job, to see that they have one of the fields that are named
--   p_place      comes before the name of the field in an error, like 'jobs[3].'
-- Answers the parameters of awa.unique_key and the mask of states as bits; states is null for a job that is not unique.
-- Raises 22023, in the words of Rust's Unique::check. Reads no table.
create or replace function awa.read_unique_by(
    p_unique_by jsonb,
    p_args jsonb,
    p_place text default '',
    out states smallint,
    out by_queue boolean,
    out by_args boolean,
    out fields text[],
    out period double precision
)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $read_unique_by$
declare
    field   constant text := p_place || 'unique_by';
    preset  jsonb := nullif(p_unique_by -> 'preset', 'null');
    given   jsonb := nullif(p_unique_by -> 'args', 'null');
    queue   jsonb := nullif(p_unique_by -> 'queue', 'null');
    seconds numeric;
    unknown text;
    fault   text;
begin
    if p_unique_by is null or p_unique_by = 'null' then
        return;
    elsif jsonb_typeof(p_unique_by) <> 'object' then
        perform awa.refuse(field, awa.excerpt(p_unique_by::text), 'an object');
    end if;
    select key into unknown
      from jsonb_object_keys(p_unique_by) as key
     where key not in ('preset', 'args', 'queue', 'period', 'states')
     order by key collate "C"
     limit 1;
    if found then
        perform awa.refuse_with(format('%s.%s is not known; the keys are preset, args, queue, period and states',
                                       field, awa.excerpt(unknown)));
    elsif preset not in ('"until_finished"', '"while_waiting"', '"within"') then
        perform awa.refuse(field || '.preset', awa.excerpt(preset::text), 'until_finished, while_waiting or within');
    elsif jsonb_typeof(queue) <> 'boolean' then
        perform awa.refuse(field || '.queue', awa.excerpt(queue::text), 'true or false');
    elsif jsonb_typeof(given) not in ('boolean', 'array')
            or (jsonb_typeof(given) = 'array' and jsonb_path_exists(given, 'strict $[*] ? (@.type() != "string")')) then
        perform awa.refuse(field || '.args', awa.excerpt(given::text), 'true, false or an array of names of fields');
    end if;
    states := awa.read_unique_states(nullif(p_unique_by -> 'states', 'null'), field || '.states');
    states := coalesce(states, case preset when '"while_waiting"' then 19 when '"within"' then 63 else 31 end);
    seconds := awa.read_seconds(p_unique_by -> 'period', field || '.period');
    if seconds not between 1 and 316224000 or (seconds is null and preset = '"within"') then
        perform awa.refuse(field || '.period', awa.seconds(seconds), '1 second to 10 years');
    end if;
    period := seconds;
    by_queue := coalesce(queue = 'true', false);
    by_args := coalesce(given = 'true', given is null);
    if jsonb_typeof(given) = 'array' then
        fields := array(select jsonb_array_elements_text(given));
        if cardinality(fields) not between 1 and 32 then
            perform awa.refuse(field || '.args', format('%s names', cardinality(fields)), '1 to 32 names');
        end if;
        select awa.name_fault(field || '.args', listed.name) into fault
          from unnest(fields) with ordinality as listed (name, place)
         where awa.name_fault('', listed.name) is not null
         order by listed.place
         limit 1;
        if found then
            perform awa.refuse_with(fault);
        elsif jsonb_typeof(p_args) is distinct from 'object' or not p_args ?| fields then
            perform awa.refuse(field || '.args', given::text, 'names of fields, of which the args have at least one');
        end if;
    end if;
end
$read_unique_by$;
