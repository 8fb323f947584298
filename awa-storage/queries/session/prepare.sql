-- Settings for a connection that only this product's statements use, whatever an administrator has set for the role or the
-- database. Never through a pooler that shares sessions: others would inherit them.
--   $1 milliseconds after which the server itself ends a statement: one that nobody waits for any longer must not go on
--      waiting for a lock, beside all those that were sent after it
-- Everything is qualified: the path of the connection is not ours.
select pg_catalog.set_config('statement_timeout', $1, false) as statements,
       pg_catalog.set_config('idle_session_timeout', '0', false) as idleness,
       pg_catalog.set_config('default_transaction_isolation', 'read committed', false) as isolation
