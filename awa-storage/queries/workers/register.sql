-- Enter process $1: name, host, process id, version, queues, kinds. Locks its row.
select awa.register_worker($1, $2, $3, $4, $5, $6, $7)::text as done
