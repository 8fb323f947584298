-- Answer a callback: nothing is left to do, the job has completed. Also while its handler still runs, which is then told.
--   callback  the id that the handler was given
--   payload   kept as the result of the job; null for no result, which JSON null is not
-- Answers the job, what came of the answer, and the state of the job now:
--   applied    it took effect. Should another job hold the unique key that the state needs, the job gives its key up.
--   unchanged  this very answer was given before: repeating it is harmless
--   refused    too late: it was answered otherwise, timed out, the job was called off or goes on under another lease, or it
--              waits for another callback
--   busy       somebody has the job or its unique key locked for more than a second; nothing was changed, try again
--   not_found  there is no such callback, or not any more
-- Fails with 22023 for a payload that is too large or too deep. Locks and indexes: see awa.answer_callback.
create or replace function awa.callback_complete(
    callback uuid,
    payload jsonb default null,
    out job_id bigint,
    out outcome text,
    out state awa.job_state
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform awa.check_payload(payload);
    select answer.job_id, answer.outcome, answer.state
      into job_id, outcome, state
      from awa.answer_callback(callback, 'complete', payload, null) as answer;
end
$$;

-- Answer a callback: the job goes on. It is available at once and its attempt does not count; an answer that comes before the
-- job waits is kept, and then the job does not wait.
--   callback  the id that the handler was given
--   payload   what the next attempt is told; null for nothing, which JSON null is not
-- Answers as awa.callback_complete. A job whose unique key another one holds by then ends cancelled, and its error says so.
create or replace function awa.callback_resume(
    callback uuid,
    payload jsonb default null,
    out job_id bigint,
    out outcome text,
    out state awa.job_state
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform awa.check_payload(payload);
    select answer.job_id, answer.outcome, answer.state
      into job_id, outcome, state
      from awa.answer_callback(callback, 'resume', payload, null) as answer;
end
$$;

-- Answer a callback: the job has failed for good. Also while its handler still runs, which is then told. Progress stays.
--   callback  the id that the handler was given
--   error     why: recorded among the errors of the job, at most 16 KiB of it
-- Answers as awa.callback_complete. Fails with 22023 without an error.
create or replace function awa.callback_fail(
    callback uuid,
    error text,
    out job_id bigint,
    out outcome text,
    out state awa.job_state
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if error is null then
        perform awa.refuse('error', null, 'a text');
    end if;
    select answer.job_id, answer.outcome, answer.state
      into job_id, outcome, state
      from awa.answer_callback(callback, 'fail', null, awa.error_text(error)) as answer;
end
$$;

-- Refuse a payload that no worker could be handed.
--   p_payload  what came with the answer, or null
-- Raises 22023 (invalid_parameter_value). Reads no table.
create or replace function awa.check_payload(p_payload jsonb) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
declare
    bytes_max constant integer := 1048576;
    fault     constant text := awa.json_fault('payload', p_payload, bytes_max);
begin
    if fault is not null then
        perform awa.refuse_with(fault);
    end if;
end
$$;
