-- Open a callback for attempt $2 of job $1, due in $3 seconds. Null where the lease is lost. Locks and index: awa.open_callback.
select awa.open_callback($1, $2, $3) as "id: awa_model::CallbackId"
