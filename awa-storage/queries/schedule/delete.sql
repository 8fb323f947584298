-- Delete schedule $1. True if there was one. Locks its row; index: the primary key.
select awa.delete_schedule($1) as "deleted!"
