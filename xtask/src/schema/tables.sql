-- Tables and partitions with columns, constraints, storage options and comments, as statements.
with described as (
    select relation.oid,
           relation.relname,
           relation.relispartition,
           relation.relpersistence = 'u' as is_unlogged,
           pg_get_expr(relation.relpartbound, relation.oid) as bound,
           pg_get_partkeydef(relation.oid) as partition_key,
           (select array_agg(option order by option collate "C")
              from (select option from unnest(relation.reloptions) as option
                     union all
                    select 'toast.' || option from unnest(toast.reloptions) as option) as options) as options
      from pg_class as relation
      left join pg_class as toast on toast.oid = relation.reltoastrelid
     where relation.relnamespace = 'awa'::regnamespace
       and relation.relkind in ('r', 'p')
),
parts as (
    -- A partition has its parent's columns: only what is its own is told.
    select relation.oid, attribute.attnum::integer as place,
           rtrim(format('    %s %s%s%s',
               rpad(quote_ident(attribute.attname), 20),
               rpad(format_type(attribute.atttypid, attribute.atttypmod), 24),
               case when collation_of.collname <> 'default' then format(' collate %I', collation_of.collname) end,
               case when attribute.attnotnull then ' not null' end
                   || coalesce(' default ' || pg_get_expr(fallback.adbin, fallback.adrelid), ''))) as line
      from described as relation
      join pg_attribute as attribute on attribute.attrelid = relation.oid
      left join pg_attrdef as fallback on fallback.adrelid = relation.oid and fallback.adnum = attribute.attnum
      left join pg_collation as collation_of on collation_of.oid = attribute.attcollation
     where attribute.attnum > 0 and not attribute.attisdropped and not relation.relispartition
     union all
    select relation.oid, 10000 + row_number() over (partition by relation.oid order by restriction.conname collate "C")::integer,
           format('    constraint %I %s', restriction.conname, pg_get_constraintdef(restriction.oid, true))
      from described as relation
      join pg_constraint as restriction on restriction.conrelid = relation.oid
     where restriction.contype in ('c', 'p', 'u', 'f', 'x')
)
-- Segments that differ in their number alone are told as one.
select distinct regexp_replace(regexp_replace(concat(
           'create ', case when described.is_unlogged then 'unlogged ' end, 'table awa.', quote_ident(described.relname),
           (select ' partition of ' || inhparent::regclass from pg_inherits where inhrelid = described.oid),
           (select E' (\n' || string_agg(parts.line, E',\n' order by parts.place) || E'\n)' from parts where parts.oid = described.oid),
           ' ' || lower(substring(described.bound from '^[A-Z ]+')) || substring(described.bound from '\(.*$'),
           ' partition by ' || described.partition_key,
           ' with (' || array_to_string(described.options, ', ') || ')',
           ';',
           E'\ncomment on table awa.' || quote_ident(described.relname) || ' is '
               || quote_literal(obj_description(described.oid, 'pg_class')) || ';',
           (select E'\n' || string_agg(format('comment on column awa.%I.%I is %L;', described.relname, attribute.attname,
                       col_description(described.oid, attribute.attnum)), E'\n' order by attribute.attnum)
              from pg_attribute as attribute
             where attribute.attrelid = described.oid and col_description(described.oid, attribute.attnum) is not null),
           (select E'\n' || string_agg(replace(pg_get_indexdef(entry.indexrelid), ' USING btree', '') || ';', E'\n'
                       order by entry.indexrelid::regclass::text collate "C")
              from pg_index as entry
             where entry.indrelid = described.oid
               and not exists (select from pg_constraint where conindid = entry.indexrelid)),
           (select E'\n' || string_agg(pg_get_triggerdef(rule.oid) || ';'
                       || case rule.tgenabled when 'A' then ' -- enabled always' when 'D' then ' -- disabled' else '' end, E'\n'
                       order by rule.tgname collate "C")
              from pg_trigger as rule
             where rule.tgrelid = described.oid and not rule.tgisinternal and rule.tgparentid = 0)
       ), 'jobs_hot_[0-7]', 'jobs_hot_0…7', 'g'), '(partition of awa.jobs_hot .*for values in )\(''?[0-7]''?\)', '\1(0…7)') collate "C"
  from described
 order by 1;
