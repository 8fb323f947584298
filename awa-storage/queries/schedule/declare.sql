-- Declare the schedules $3 of application $1 at revision $2, and delete its others if $4. The function says which locks.
select name as "name!",
       outcome as "outcome!"
  from awa.declare_schedules($1, $2, $3::text::jsonb, $4)
