-- Does the segment hold a row numbered above a settled mark that must not be truncated yet? Asked under the lock, so it
-- reads no more than the newest rows of each lane.
--   p_segment   the segment
--   p_settled   rows up to this seq have been looked at already
--   p_ended_by  completed rows that ended by then are past their retention
--   p_longer    queues that keep completed rows longer: any row of theirs counts
-- Answers true too where a lane holds more than a thousand such rows, and for one that may hold a unique claim. Index: dispatch. Locks nothing.
do $install$
declare
    branches text;
begin
    select string_agg(replace($branch$
        when @ then
            lane_queue := null;
            loop
                if lane_queue is null then
                    select job.queue, job.priority into lane_queue, lane_priority
                      from awa.jobs_hot_@ as job
                     order by job.queue, job.priority
                     limit 1;
                else
                    select job.queue, job.priority into lane_queue, lane_priority
                      from awa.jobs_hot_@ as job
                     where (job.queue, job.priority) > (lane_queue, lane_priority)
                     order by job.queue, job.priority
                     limit 1;
                end if;
                exit when not found;
                select count(*), coalesce(bool_and(newer.expired), true)
                  into looked, expired
                  from (select job.state = 'completed'
                               and job.finalized_at <= p_ended_by
                               and job.queue <> all (p_longer)
                               and coalesce(job.unique_states & awa.state_bit('completed'), 0) = 0 as expired
                          from awa.jobs_hot_@ as job
                         where job.queue = lane_queue
                           and job.priority = lane_priority
                           and job.seq > p_settled
                         order by job.seq
                         limit newer_max + 1) as newer;
                if looked > newer_max or not expired then
                    return true;
                end if;
            end loop;$branch$, '@', segment::text), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace($function$
create or replace function awa.unexpired_after(
    p_segment smallint,
    p_settled bigint,
    p_ended_by timestamptz,
    p_longer text[]
)
    returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $body$
declare
    newer_max     constant integer := 1000;
    lane_queue    text collate "C";
    lane_priority smallint;
    looked        integer;
    expired       boolean;
begin
    case p_segment
        @branches
    end case;
    return false;
end
$body$
$function$, '@branches', branches);
end
$install$;
