-- Switch the part of active_claims if it has at least $1 bytes and $2 seconds. Locks the row of awa.ring if so.
select awa.switch_claims($1, $2) as "switched!"
