-- Forget up to $1 times that were handled more than 90 days ago. Index: cron_ticks_handled. Locks the rows.
select awa.prune_ticks($1) as "pruned!"
