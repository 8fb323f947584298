-- Pause queue $1. True if that changed anything. Locks its row; index: the primary key.
select awa.pause_queue($1::text) as "changed!"
