-- Enums and sequences as statements.
select format('create type awa.%I as enum (%s);', enum.typname, string_agg(quote_literal(label.enumlabel), ', ' order by label.enumsortorder))
  from pg_type as enum
  join pg_enum as label on label.enumtypid = enum.oid
 where enum.typnamespace = 'awa'::regnamespace
 group by enum.typname
 union all
select format('create sequence awa.%I as %s cache %s;', relation.relname, format_type(sequence.seqtypid, null), sequence.seqcache)
  from pg_sequence as sequence
  join pg_class as relation on relation.oid = sequence.seqrelid
 where relation.relnamespace = 'awa'::regnamespace
 order by 1;
