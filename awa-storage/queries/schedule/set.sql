-- Set schedule $1: expression $2, job $3, zone $4, missed $5, catch_up_max $6, overlap $7. Locks its row; index: the primary key.
select awa.set_schedule($1, $2, $3::text::jsonb, $4, $5, $6, $7) as "outcome!"
