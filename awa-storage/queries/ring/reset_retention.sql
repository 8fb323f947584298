-- Take back what was set for the ended jobs of queue $1. The function says which index and locks.
select awa.reset_retention($1) as "changed!"
