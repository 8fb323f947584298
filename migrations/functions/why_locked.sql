-- A reason of awa.why: an open transaction has the row of the job locked. Claims and promotions pass it by until that ends.
--   p_locker  the xmax of the row
-- That alone holds an available job back: transactions that are merely open hold back what they have themselves enqueued or
-- changed, and no other job. No row where nobody has it locked.
-- What pg_stat_activity says about sessions of other roles needs the owner of the schema to be a member of pg_read_all_stats.
-- Reads what is in shared memory; locks nothing.
create or replace function awa.why_locked(p_locker bigint)
    returns table (reason text, explanation text, advice text, detail jsonb)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    -- The id of the latest transaction that has ended, plus one.
    latest   constant bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    -- The row has the low half of an id: the whole one is the nearest.
    whole    bigint := (latest & ~4294967295::bigint) | p_locker;
    status   text;
    holder   record;
begin
    if p_locker = 0 then
        return;
    end if;
    if whole - latest > 2147483647 then
        whole := whole - 4294967296;
    elsif latest - whole > 2147483647 then
        whole := whole + 4294967296;
    end if;
    -- Of several that share a lock the row has another kind of number, which may be ahead of all transactions.
    begin
        status := pg_xact_status(greatest(whole, 0)::text::xid8);
    exception when invalid_parameter_value then
        return;
    end;
    if status is distinct from 'in progress' then
        return;
    end if;
    select session.pid, session.usename, session.application_name, session.state, session.xact_start, prepared.gid
      into holder
      from (select own.pid
              from pg_locks as own
             where own.locktype = 'transactionid'
               and own.mode = 'ExclusiveLock'
               and own.granted
               and own.transactionid::text::bigint = p_locker
             limit 1) as held
      left join pg_stat_activity as session on session.pid = held.pid
      left join pg_prepared_xacts as prepared on prepared.transaction::text::bigint = p_locker
     limit 1;
    reason := 'locked';
    explanation := case
        when holder.gid is not null then format('the prepared transaction %s has it locked', holder.gid)
        when holder.pid is not null then
            format('an open transaction of session %s (%s, %s) has it locked%s', holder.pid, holder.usename,
                   coalesce(holder.state, 'state unknown'), ' since ' || awa.told_time(holder.xact_start))
        else 'an open transaction has it locked'
    end;
    advice := case
        when holder.gid is not null then 'COMMIT PREPARED or ROLLBACK PREPARED it'
        else 'end that transaction; pg_terminate_backend ends its session'
    end;
    detail := jsonb_build_object('xid', whole, 'pid', holder.pid, 'user', holder.usename,
                                 'application', holder.application_name, 'state', holder.state,
                                 'since', awa.calendar_time(holder.xact_start), 'prepared', holder.gid);
    return next;
end
$$;
