-- Forget how far lanes are settled. To be run after a restore, an import, or the promotion of a logical subscriber, with
-- workers stopped or not: those that run drop what they know at their next look, since the incarnation changes.
-- The counters are set above every number in use, should the import have brought some. Answers how many marks were dropped.
-- Reads every job. Locks the incarnation's row and the marks.
create or replace function awa.reset_marks() returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    dropped     bigint;
    highest_seq bigint;
    highest_id  bigint;
begin
    select max(job.seq), max(job.id) into highest_seq, highest_id from awa.jobs_hot as job;
    select greatest(highest_id, max(job.id)) into highest_id from awa.scheduled_jobs as job;
    if highest_seq > (select last_value from awa.job_seq) then
        perform setval('awa.job_seq', highest_seq);
    end if;
    if highest_id > (select last_value from awa.job_id) then
        perform setval('awa.job_id', highest_id);
    end if;
    delete from awa.lane_marks;
    get diagnostics dropped = row_count;
    insert into awa.incarnation default values
        on conflict (singleton) do update set id = excluded.id;
    return dropped;
end
$$;
