-- The last step of awa.recycle, of which it is a part: lock, look at what is newer, truncate, advance. All or nothing.
--   p_oldest    the oldest generation
--   p_settled   rows up to this seq have been found completed and past their retention
--   p_ended_by  completed rows that ended by then are past their retention
--   p_longer    queues that keep completed rows longer
-- outcome: recycled, locked, raced, or waiting with a reason. Locks as awa.recycle describes.
do $install$
declare
    branches text;
begin
    select string_agg(replace($branch$
            when @ then
                if exists (select 1 from awa.job_unique_claims) then
                    delete from awa.job_unique_claims as claim
                     where claim.unique_key in (
                           select held.unique_key
                             from awa.job_unique_claims as held
                            where held.job_id in (
                                  select job.id from awa.jobs_hot_@ as job where job.unique_key is not null)
                            order by held.unique_key
                              for update);
                end if;
                lock table awa.jobs_hot_@ in exclusive mode;
                if awa.unexpired_after(@::smallint, p_settled, p_ended_by, p_longer) then
                    raise sqlstate 'AW001';
                end if;
                -- Not by waiting: who has read the table and goes on to write would be in a circle with this, and PostgreSQL
                -- would fail him and not this. A few tries, between which readers end.
                for try in 1..tries_max loop
                    begin
                        lock table awa.jobs_hot_@ in access exclusive mode nowait;
                        exit;
                    exception when lock_not_available then
                        if try = tries_max then
                            raise;
                        end if;
                        perform pg_sleep(0.005);
                    end;
                end loop;
                perform set_config('awa.claims_released', 'jobs_hot_@', true);
                truncate awa.jobs_hot_@;
                perform set_config('awa.claims_released', '', true);$branch$, '@', segment::text), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace($function$
create or replace function awa.truncate_oldest(
    p_oldest bigint,
    p_settled bigint,
    p_ended_by timestamptz,
    p_longer text[],
    out outcome text,
    out reason text
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set jit = off
    set lock_timeout = '50ms'
as $body$
declare
    tries_max constant integer := 10;
begin
    begin
        case p_oldest % 8
            @branches
        end case;
        update awa.ring as ring
           set oldest = ring.oldest + 1,
               stuck_reason = null,
               stuck_since = null,
               clean_generation = null
         where ring.oldest = p_oldest
           and ring.oldest < ring.current;
        if not found then
            raise sqlstate 'AW002';
        end if;
        outcome := 'recycled';
    exception
        when lock_not_available or deadlock_detected then
            outcome := 'locked';
            reason := format('segment %s: somebody keeps the table locked', p_oldest % 8);
        when sqlstate 'AW001' then
            outcome := 'waiting';
            reason := format('segment %s: rows came in late', p_oldest % 8);
        when sqlstate 'AW002' then
            outcome := 'raced';
    end;
end
$body$
$function$, '@branches', branches);
end
$install$;
