-- Lock the claims of these keys in key order, before rows that hold them move: whoever touches several keys does so in
-- this order, so that none waits for the other in a circle (a move gives a key back and takes it again).
--   p_keys  unique keys; nulls and unclaimed ones are passed by
-- Index: the primary key. Waits for other holders as long as the caller's lock_timeout allows.
create or replace function awa.lock_unique_claims(p_keys bytea[]) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if array_length(array_remove(p_keys, null), 1) is null then
        return;
    end if;
    perform 1
       from (select distinct key from unnest(p_keys) as wanted (key) where key is not null order by key) as wanted
      cross join lateral (
            select claim.job_id
              from awa.job_unique_claims as claim
             where claim.unique_key = wanted.key
               for update
      ) as claim;
end
$$;
