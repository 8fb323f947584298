-- Views with their columns; the queries are in the migrations, since servers of different versions print them differently.
select concat(
           'create view awa.', quote_ident(relation.relname), E' (\n',
           (select string_agg(format('    %s -- %s', rpad(quote_ident(attribute.attname) || ',', 20),
                       format_type(attribute.atttypid, attribute.atttypmod)), E'\n' order by attribute.attnum)
              from pg_attribute as attribute
             where attribute.attrelid = relation.oid and attribute.attnum > 0),
           E'\n) as …;',
           E'\ncomment on view awa.' || quote_ident(relation.relname) || ' is '
               || quote_literal(obj_description(relation.oid, 'pg_class')) || ';'
       )
  from pg_class as relation
 where relation.relnamespace = 'awa'::regnamespace
   and relation.relkind = 'v'
 order by relation.relname collate "C";
