-- A warning of awa.warnings: a JSON array of one object, or an empty one where there is nothing to warn of.
--   p_holds                  whether there is
--   p_code                   the word for programs
--   p_explanation, p_advice  for people: what is the matter, and what can be done
-- Pure: reads and locks nothing.
create or replace function awa.warn(p_holds boolean, p_code text, p_explanation text, p_advice text) returns jsonb
    language sql immutable
    set search_path = pg_catalog, pg_temp
return case when p_holds then jsonb_build_array(jsonb_build_object(
                'code', p_code, 'explanation', p_explanation, 'advice', p_advice))
            else '[]' end;
