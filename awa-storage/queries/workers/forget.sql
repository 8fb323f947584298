-- Forget up to $2 processes not seen for $1 seconds. Locks their rows, waiting for none.
select awa.forget_workers($1, $2) as "forgotten!"
