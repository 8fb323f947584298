-- Resume schedule $1. Locks its row; index: the primary key.
select awa.resume_schedule($1) as "outcome!"
