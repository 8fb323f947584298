-- Read and check what awa.edit is to change.
--   p_changes  an object with keys of awa.enqueue
-- Answers values for all keys, of which those that are not given are to be passed by; due is run_at, or run_in from now.
-- Raises 22023 (invalid_parameter_value). Reads no table.
create or replace function awa.read_changes(
    p_changes jsonb,
    out queue text,
    out priority smallint,
    out due timestamptz,
    out args jsonb,
    out max_attempts smallint,
    out timeout interval,
    out tags text[],
    out metadata jsonb
)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    known constant text[] := array['queue', 'priority', 'run_at', 'run_in', 'args', 'max_attempts', 'timeout', 'tags', 'metadata'];
    wrong text;
    job   record;
begin
    if p_changes is null or jsonb_typeof(p_changes) <> 'object' then
        perform awa.refuse('changes', awa.excerpt(p_changes::text), 'an object');
    end if;
    select min(given.key collate "C") into wrong from jsonb_object_keys(p_changes) as given (key) where given.key <> all (known);
    if wrong is not null then
        perform awa.refuse_with(format('%s cannot be changed; the keys are %s', awa.excerpt(wrong), array_to_string(known, ', ')));
    end if;
    select min(given.key collate "C") into wrong
      from jsonb_each(p_changes) as given (key, value)
     where given.value = 'null'
       and given.key not in ('args', 'timeout', 'tags', 'metadata');
    if wrong is not null then
        perform awa.refuse(wrong, 'null', 'a value');
    end if;
    job := awa.read_job(p_changes || '{"kind": "any"}', '');
    queue := job.queue;
    priority := job.priority;
    due := coalesce(job.run_at, now() + make_interval(secs => job.run_in));
    args := job.args;
    max_attempts := job.max_attempts;
    timeout := make_interval(secs => job.timeout);
    tags := case when job.tags is not null then array(select jsonb_array_elements_text(job.tags)) end;
    metadata := job.metadata;
end
$$;
