-- Why: psql's \d+ says what each thing is for. Functions of functions/ are described by the runner, from their files.
-- Previous binary: sees no difference.
-- Locks: SHARE UPDATE EXCLUSIVE on tables, for as long as it takes to write a few rows of the catalogs.

comment on type awa.job_state is 'Where a job is in its life. docs/state-machine.md shows the ways from state to state.';
comment on sequence awa.active_claim_id is 'Numbers claimed batches, so that rescue can go on behind one.';

comment on function awa.current_segment() is 'The segment that rows are inserted into.';
comment on function awa.assign_xid() is 'Trigger: an inserting statement owns its transaction id before it draws a seq.';
comment on function awa.refuse_lane_change() is 'Trigger: what the dispatch index covers does not change in place.';
comment on function awa.refuse_state_change() is 'Trigger: in place a state goes only from available to running to completed.';
comment on function awa.state_bit(awa.job_state) is 'The bit of a state in the masks of unique_states.';
comment on function awa.keep_unique_claim() is 'Trigger: takes or gives back the unique key of a row that came, went or changed its state.';
comment on function awa.release_unique_claims() is 'Trigger: gives back the unique keys of the rows that TRUNCATE removes.';
comment on function awa.job_columns(text[]) is 'The columns that a move takes over as they are; a list for functions that move rows.';

do $children$
begin
    for segment in 0..7 loop
        execute format('comment on table awa.jobs_hot_%s is %L', segment,
                       format('Segment %s of the ring: emptied by TRUNCATE, never by VACUUM.', segment));
    end loop;
    for part in 0..1 loop
        execute format('comment on table awa.active_claims_%s is %L', part,
                       'One of two parts that take turns: one is written to, the other is emptied.');
    end loop;
end
$children$;

-- The same columns in both planes and in the view.
do $columns$
declare
    told record;
begin
    for told in
        select relation.name as relation, description.name, description.text
          from (values
            ('id', 'Never reused, never changed.'),
            ('segment', 'Where the row lies: 0 to 7 is the ring, -1 the parked rows.'),
            ('kind', 'Which handler runs the job.'),
            ('queue', 'Which workers run the job: those that serve this queue.'),
            ('state', 'Where the job is in its life.'),
            ('priority', '1 goes first, 4 last.'),
            ('attempt', 'How many attempts have begun and count; snoozing and releasing give one back.'),
            ('max_attempts', 'The job ends failed when this many attempts have failed.'),
            ('run_lease', 'Counts claims over the whole life of the job and never falls: the fencing number.'),
            ('run_at', 'When the job is or was due. A claim orders by entry, not by this.'),
            ('created_at', 'When the job was enqueued.'),
            ('attempted_at', 'When the newest attempt began.'),
            ('heartbeat_at', 'The last sign of life of the attempt that runs.'),
            ('deadline_at', 'When the attempt that runs must have ended; null without a timeout.'),
            ('finalized_at', 'When the job ended.'),
            ('timeout', 'How long one attempt may take; null for any time.'),
            ('attempted_by', 'The worker of the newest attempt (awa.workers).'),
            ('snoozes', 'How often a handler has put the job off.'),
            ('args', 'What the handler is called with.'),
            ('metadata', 'The user''s own; nothing in here steers Awa.'),
            ('tags', 'The user''s own.'),
            ('unique_key', 'From awa.unique_key; null for a job that is not unique.'),
            ('unique_states', 'Bits of the states in which the job holds its key (awa.state_bit).'),
            ('progress', 'What the handler has reported; kept for the next attempt, cleared on completion.'),
            ('result', 'What the handler has returned, if that is kept.'),
            ('errors', 'Newest last, at most 20: {at, attempt, lease, worker, source, error}.'),
            ('errors_dropped', 'How many older errors are gone.'),
            ('trace_context', 'W3C traceparent of whoever enqueued the job.')
               ) as description (name, text)
          join pg_attribute as attribute on attribute.attname = description.name
          join (values ('jobs_hot'), ('scheduled_jobs'), ('jobs')) as relation (name)
            on attribute.attrelid = format('awa.%I', relation.name)::regclass
    loop
        execute format('comment on column awa.%I.%I is %L', told.relation, told.name, told.text);
    end loop;
end
$columns$;

do $others$
declare
    told record;
begin
    for told in
        select description.*
          from (values
            ('ring', 'singleton', 'Lets there be one row only.'),
            ('ring', 'oldest', 'The oldest live generation, the next to be emptied.'),
            ('ring', 'current', 'The generation that rows are inserted into.'),
            ('ring', 'opened_at', 'When each segment became current, by segment plus one.'),
            ('ring', 'closed_at', 'When each segment ceased to be current, by segment plus one; null while it is.'),
            ('ring', 'claims_switched_at', 'Since when claims are listed in that part.'),
            ('ring', 'completed_retention', 'How long completed jobs are kept, unless their queue says otherwise.'),
            ('ring', 'failed_retention', 'How long failed jobs are kept, unless their queue says otherwise.'),
            ('ring', 'cancelled_retention', 'How long cancelled jobs are kept, unless their queue says otherwise.'),
            ('ring', 'segment_bytes_max', 'A segment that has grown this large is closed even if it is young.'),
            ('incarnation', 'singleton', 'Lets there be one row only.'),
            ('lane_marks', 'seq', 'No row numbered up to this is or can become available in the lane.'),
            ('queues', 'paused', 'No worker claims from a paused queue.'),
            ('queues', 'completed_retention', 'For this queue, instead of the one in awa.ring; null: as there.'),
            ('queues', 'failed_retention', 'For this queue, instead of the one in awa.ring; null: as there.'),
            ('queues', 'cancelled_retention', 'For this queue, instead of the one in awa.ring; null: as there.'),
            ('active_claims', 'part', 'Which of the two parts: they are written to and emptied in turn.'),
            ('active_claims', 'worker', 'Who claimed the batch (awa.workers).'),
            ('active_claims', 'job_ids', 'The jobs of the batch.'),
            ('active_claims', 'run_leases', 'The lease of each of them, same order.'),
            ('job_unique_claims', 'unique_key', 'From awa.unique_key.'),
            ('job_unique_claims', 'job_id', 'The job that holds the key.'),
            ('workers', 'name', 'For people; need not be unique.'),
            ('workers', 'pid', 'Of the process, on its host.'),
            ('workers', 'version', 'Of Awa in that process.'),
            ('workers', 'queues', 'What it serves.'),
            ('workers', 'kinds', 'What it has handlers for.'),
            ('workers', 'last_seen_at', 'Silence for long means that the process is gone.'),
            ('leader', 'duty', 'What is led.'),
            ('leader', 'holder', 'Who leads (awa.workers).'),
            ('leader', 'term', 'Goes up with each election: the fencing number of leadership.'),
            ('leader', 'expires_at', 'Anybody may take the duty after this.'),
            ('schema_migrations', 'checksum', 'SHA-256 of the text that was run.'),
            ('schema_migrations', 'release', 'Which release ran it.'),
            ('granted_access', 'bundle', 'producer, worker, operator or viewer.')
               ) as description (relation, name, text)
    loop
        execute format('comment on column awa.%I.%I is %L', told.relation, told.name, told.text);
    end loop;
    for told in
        select rule.tgrelid::regclass as relation, rule.tgname as name, description.text
          from (values
            ('assign_xid', 'An inserting statement owns its transaction id before it draws a seq.'),
            ('refuse_lane_change', 'What the dispatch index covers does not change in place.'),
            ('refuse_state_change', 'In place a state goes only from available to running to completed.'),
            ('unique_claim_taken', 'A row that needs its unique key takes it.'),
            ('unique_claim_changed', 'A row whose state changed takes its unique key or gives it back.'),
            ('unique_claim_left', 'A row that goes gives its unique key back.'),
            ('unique_claims_truncated', 'Rows that are truncated give their unique keys back.')
               ) as description (name, text)
          join pg_trigger as rule on rule.tgname = description.name
          join pg_class as relation on relation.oid = rule.tgrelid and relation.relnamespace = 'awa'::regnamespace
    loop
        execute format('comment on trigger %I on %s is %L', told.name, told.relation, told.text);
    end loop;
end
$others$;
