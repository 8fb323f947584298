-- Note for schedule $1 at revision $2 that it is due next at $3, or why that is not known ($4). Locks its row; index: the
-- primary key. False where it is another by now.
select awa.plan_schedule($1, $2, $3, $4) as "planned!"
