-- What job $1 was last resumed with; null for nothing. Index: callbacks_job. Locks nothing.
select awa.callback_payload($1)::text as payload
