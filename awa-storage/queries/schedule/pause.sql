-- Pause schedule $1. Locks its row; index: the primary key.
select awa.pause_schedule($1) as "outcome!"
