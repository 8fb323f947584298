-- Drop the persisted marks and change the incarnation. Reads every job; locks marks and incarnation.
select awa.reset_marks() as "dropped!"
