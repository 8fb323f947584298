-- Reasons of awa.why: the job waits for the answer to a callback. The id of the callback is not told: who knows it may answer.
--   p_id, p_lease  the job and its run_lease
-- Index: callbacks_job. Locks nothing.
create or replace function awa.why_waiting(p_id bigint, p_lease bigint)
    returns table (reason text, explanation text, advice text, detail jsonb)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    open_since timestamptz;
    until      timestamptz;
begin
    select awa.calendar_time(waited.created_at), awa.calendar_time(waited.due_at) into open_since, until
      from awa.callbacks as waited
     where waited.job_id = p_id
       and waited.run_lease = p_lease
       and waited.parked
       and waited.answered_at is null
     order by waited.due_at
     limit 1;
    detail := jsonb_build_object('since', open_since, 'until', until);
    if until <= now() then
        reason := 'callback_overdue';
        explanation := format('nobody answered its callback by %s, and its waiting has not been ended yet%s',
                              awa.told_time(until), awa.duty_trouble('callbacks'));
        advice := 'the leader does so at its next pass, or the next tick does; an answer still counts until then';
        return query select * from awa.why_unled();
    else
        reason := 'waiting';
        explanation := format('it waits for the answer to a callback%s', ', until ' || awa.told_time(until));
        advice := 'look for who should answer; awa.cancel ends the waiting';
    end if;
    return next;
end
$$;
