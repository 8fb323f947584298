-- Lock jobs wherever they are, and answer them as they are once locked.
--   p_ids  job ids in any order; nulls, repetitions and ids of no job are passed by
-- Answers the rows in the order of their ids; a deferred one has neither segment nor seq. All are locked before the first one
-- is answered: whoever locks several jobs does so in this order, and takes or gives back unique keys afterwards, in theirs.
-- Index: the primary key of each table. Waits for whoever has a row locked, as long as the caller's lock_timeout allows.
-- Loses: a job that is missing from the answer is in no table that a snapshot begun after the first look sees.
--
-- awa.lock_free_jobs does the same and waits for nobody: a job that somebody has locked is passed by like one that is gone.
do $install$
declare
    deferred text;
    variant  record;
begin
    select string_agg(case when attname in ('segment', 'seq') then 'null' else 'waiting.' || quote_ident(attname) end,
                      ', ' order by attnum)
      into deferred
      from pg_attribute
     where attrelid = 'awa.jobs_hot'::regclass
       and attnum > 0
       and not attisdropped;
    for variant in
        select * from (values ('lock_jobs', '', 'false'), ('lock_free_jobs', ' skip locked', 'true')) as known (name, skip, passes)
    loop
        execute replace(replace(replace(replace($function$
create or replace function awa.@name(p_ids bigint[]) returns setof awa.jobs_hot
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $body$
declare
    -- A row can move once more between two looks; it cannot do so for ever.
    rounds_max constant integer := 100;
    wanted bigint;
    job    awa.jobs_hot;
begin
    for wanted in select distinct given.id from unnest(p_ids) as given (id) where given.id is not null order by given.id loop
        for round in 1..rounds_max loop
            select hot.* into job from awa.jobs_hot as hot where hot.id = wanted for update@skip;
            exit when found;
            select @deferred into job from awa.scheduled_jobs as waiting where waiting.id = wanted for update@skip;
            exit when found;
            -- In neither: gone, or moved against the order of these two looks. One snapshot tells.
            exit when not exists (select from awa.jobs_hot as hot where hot.id = wanted
                                  union all
                                  select from awa.scheduled_jobs as waiting where waiting.id = wanted);
            exit when @passes and round = 2;
            if round = rounds_max then
                raise exception 'job % moved % times while it was to be locked', wanted, rounds_max
                    using errcode = 'lock_not_available';
            end if;
        end loop;
        if job.id is not null then
            return next job;
        end if;
    end loop;
end
$body$
$function$,
        '@deferred', deferred),
        '@name', variant.name),
        '@skip', variant.skip),
        '@passes', variant.passes);
    end loop;
end
$install$;

comment on function awa.lock_jobs(bigint[]) is 'Lock jobs wherever they are, and answer them as they are once locked.';
comment on function awa.lock_free_jobs(bigint[]) is
    'Lock jobs as awa.lock_jobs does, but wait for nobody: what somebody has locked is passed by.';
