-- Let queue $1 go on, and wake who waits for it. True if it was paused. Locks its row; index: the primary key.
select awa.resume_queue($1::text) as "changed!"
