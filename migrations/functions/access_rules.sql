-- Which bundle may use which function or relation of this schema: the one place that says so.
-- object is a name in schema awa, privilege what is granted on it, bundles who gets it. A function without a bundle is a
-- building block: it runs as its caller, who is the owner inside every entry function, and is granted to nobody.
-- Entry functions run as the owner, with a pinned search path. A test compares these rules with the schema, so that no
-- function is forgotten. Reads no table.
create or replace function awa.access_rules()
    returns table (object text, privilege text, bundles text[])
    language sql immutable
    set search_path = pg_catalog, pg_temp
as $access_rules$
    select object, privilege, bundles::text[]
      from (values
    -- To start: is the schema the one that this program needs? Holds versions, names and checksums of migrations.
    ('schema_migrations', 'select', '{producer,worker,operator,viewer}'),
    ('contract_version', 'execute', '{producer,worker,operator,viewer}'),

    -- Enqueueing. By the view too; `returning id` needs the right to read that one column.
    ('enqueue', 'execute', '{producer}'),
    ('enqueue_many', 'execute', '{producer}'),
    ('enqueue_one', 'execute', '{producer}'),
    ('enqueue_batch', 'execute', '{producer}'),
    ('unique_key', 'execute', '{producer}'),
    ('find_unique', 'execute', '{producer,operator}'),
    ('cancel_unique', 'execute', '{producer,operator}'),
    ('jobs', 'insert', '{producer}'),
    ('jobs', 'select (id)', '{producer}'),

    -- Running jobs: finding and claiming them, signs of life, outcomes.
    ('claim', 'execute', '{worker}'),
    ('horizon', 'execute', '{worker}'),
    ('idle_writers', 'execute', '{worker}'),
    ('load_marks', 'execute', '{worker}'),
    ('look', 'execute', '{worker}'),
    ('persist_marks', 'execute', '{worker}'),
    ('pulse', 'execute', '{worker}'),
    ('still_available', 'execute', '{worker}'),
    ('beat', 'execute', '{worker}'),
    ('complete', 'execute', '{worker}'),
    ('complete_alone', 'execute', '{worker}'),
    ('settle_batch', 'execute', '{worker}'),
    ('settle_alone', 'execute', '{worker}'),
    ('register_worker', 'execute', '{worker}'),
    ('beat_worker', 'execute', '{worker}'),
    ('unregister_worker', 'execute', '{worker}'),

    -- Maintenance, which any worker may come to lead.
    ('acquire_leadership', 'execute', '{worker}'),
    ('renew_leadership', 'execute', '{worker}'),
    ('resign_leadership', 'execute', '{worker}'),
    ('audit', 'execute', '{worker}'),
    ('empty_claims', 'execute', '{worker}'),
    ('forget_workers', 'execute', '{worker}'),
    ('look_at_ring', 'execute', '{worker}'),
    ('promote', 'execute', '{worker}'),
    ('prune_parked', 'execute', '{worker}'),
    ('recycle', 'execute', '{worker}'),
    ('rescue', 'execute', '{worker}'),
    ('rotate', 'execute', '{worker}'),
    ('switch_claims', 'execute', '{worker}'),

    -- Looking.
    ('jobs', 'select', '{operator,viewer}'),
    ('job_status', 'execute', '{operator,viewer}'),
    ('ring_status', 'execute', '{operator,viewer}'),
    ('list_workers', 'execute', '{operator}'),

    -- Changing jobs and settings by hand.
    ('jobs', 'update', '{operator}'),
    ('jobs', 'delete', '{operator}'),
    ('cancel', 'execute', '{operator}'),
    ('cancel_many', 'execute', '{operator}'),
    ('retry', 'execute', '{operator}'),
    ('retry_many', 'execute', '{operator}'),
    ('run_now', 'execute', '{operator}'),
    ('run_now_many', 'execute', '{operator}'),
    ('edit', 'execute', '{operator}'),
    ('delete_job', 'execute', '{operator}'),
    ('delete_jobs', 'execute', '{operator}'),
    ('pause_queue', 'execute', '{operator}'),
    ('resume_queue', 'execute', '{operator}'),
    ('configure_ring', 'execute', '{operator}'),
    ('set_retention', 'execute', '{operator}'),
    ('reset_marks', 'execute', '{operator}'),

    -- For the owner of the schema alone.
    ('grant_access', 'execute', '{}'),
    ('revoke_access', 'execute', '{}'),
    ('apply_access', 'execute', '{}'),
    ('set_access', 'execute', '{}'),
    ('check_access', 'execute', '{}'),
    ('access_rules', 'execute', '{}'),

    -- Building blocks.
    ('append_error', 'execute', '{}'),
    ('await_snapshots', 'execute', '{}'),
    ('backoff', 'execute', '{}'),
    ('batch_unique_keys', 'execute', '{}'),
    ('canonical_json', 'execute', '{}'),
    ('changed_by', 'execute', '{}'),
    ('check_name', 'execute', '{}'),
    ('check_span', 'execute', '{}'),
    ('claim_steps', 'execute', '{}'),
    ('complete_elsewhere', 'execute', '{}'),
    ('copy_claim', 'execute', '{}'),
    ('current_segment', 'execute', '{}'),
    ('error_text', 'execute', '{}'),
    ('find_kept', 'execute', '{}'),
    ('hand_back', 'execute', '{}'),
    ('hand_back_each', 'execute', '{}'),
    ('is_passing', 'execute', '{}'),
    ('job_columns', 'execute', '{}'),
    ('join_error', 'execute', '{}'),
    ('judge', 'execute', '{}'),
    ('locate', 'execute', '{}'),
    ('lock_free_jobs', 'execute', '{}'),
    ('lock_jobs', 'execute', '{}'),
    ('lock_overdue', 'execute', '{}'),
    ('lock_unique_claims', 'execute', '{}'),
    ('move_each', 'execute', '{}'),
    ('move_rows', 'execute', '{}'),
    ('must_take_key', 'execute', '{}'),
    ('open_transactions', 'execute', '{}'),
    ('operate', 'execute', '{}'),
    ('operated', 'execute', '{}'),
    ('place_job', 'execute', '{}'),
    ('promote_rows', 'execute', '{}'),
    ('refuse_deferred', 'execute', '{}'),
    ('remove_job', 'execute', '{}'),
    ('rescue_unlisted', 'execute', '{}'),
    ('secure_keys', 'execute', '{}'),
    ('settle_rows', 'execute', '{}'),
    ('settled_before', 'execute', '{}'),
    ('state_bit', 'execute', '{}'),
    ('state_of', 'execute', '{}'),
    ('still_running', 'execute', '{}'),
    ('take', 'execute', '{}'),
    ('take_unique_keys', 'execute', '{}'),
    ('truncate_oldest', 'execute', '{}'),
    ('unexpired_after', 'execute', '{}'),
    ('unfinished_claims', 'execute', '{}'),
    ('wake', 'execute', '{}'),

    -- Triggers on tables. Those on the view are entry functions, although nobody can call them: they run as the owner.
    ('assign_xid', 'execute', '{}'),
    ('keep_unique_claim', 'execute', '{}'),
    ('refuse_lane_change', 'execute', '{}'),
    ('refuse_state_change', 'execute', '{}'),
    ('release_unique_claims', 'execute', '{}')
           ) as rule (object, privilege, bundles)
$access_rules$;
