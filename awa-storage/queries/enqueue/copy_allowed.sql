-- May this role write the job tables itself, as COPY has to? Only their owner may, unless somebody granted more than the
-- bundles do. Reads and locks no row.
select bool_and(has_table_privilege('awa.' || relation.name, 'insert'))
           and has_table_privilege('awa.ring', 'select')
           and has_sequence_privilege('awa.job_id', 'usage')
           and has_sequence_privilege('awa.job_seq', 'usage')
           and has_function_privilege('awa.wake(text)', 'execute') as "allowed!"
  from unnest(array['scheduled_jobs', 'jobs_hot_0', 'jobs_hot_1', 'jobs_hot_2', 'jobs_hot_3', 'jobs_hot_4', 'jobs_hot_5',
                    'jobs_hot_6', 'jobs_hot_7']) as relation (name)
