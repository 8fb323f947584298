-- Enqueue the job of schedule $1 now. No row where there is no such schedule. The function says which locks.
select job_id as "job_id!",
       outcome as "outcome!"
  from awa.run_schedule($1)
