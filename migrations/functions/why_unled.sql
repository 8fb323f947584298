-- A reason of awa.why: nobody leads, so that nothing is promoted, rescued or timed out. No row where somebody does, or where the
-- fleet lives by ticks. Index: the primary key; awa.duties is read through. Locks nothing.
create or replace function awa.why_unled()
    returns table (reason text, explanation text, advice text, detail jsonb)
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    select 'no_leader',
           format('no process leads%s: due jobs are not promoted, dead attempts not rescued, waiting not timed out',
                  ' since ' || awa.told_time(last.ended_at)),
           'start a process that takes part in maintenance, or awa maintain --once from a timer; a dead leader is followed within about 20 s',
           jsonb_build_object('since', awa.calendar_time(last.ended_at))
      from (select max(held.expires_at) filter (where held.expires_at <= now()) as ended_at
              from awa.leader as held
             where held.duty = 'maintenance') as last
     where not exists (select from awa.current_leader())
       and not awa.has_ticks()
$$;
