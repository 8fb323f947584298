-- The process of the server that answers this connection now. Directly connected, it is always the same one, and nobody
-- else's. Everything is qualified: the path of the connection is not ours.
select pg_catalog.pg_backend_pid() as "pid!"
