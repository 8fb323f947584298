-- Functions by signature; their bodies are in migrations/. The bodies made for one segment each are told as one.
select distinct concat(
           'create function awa.', quote_ident(regexp_replace(routine.proname, '_[0-7]$', '_0…7')),
           '(', pg_get_function_arguments(routine.oid), ') returns ', pg_get_function_result(routine.oid),
           case routine.provolatile when 'i' then ' immutable' when 's' then ' stable' end,
           case when routine.prosecdef then ' security definer' end, ';'
       ) collate "C"
  from pg_proc as routine
 where routine.pronamespace = 'awa'::regnamespace
 order by 1;
