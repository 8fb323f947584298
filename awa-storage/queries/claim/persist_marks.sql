-- Remember how far the lanes are settled. $1 queues, $2 priorities, $3 seqs, same order. Locks the rows whose mark moved.
select awa.persist_marks($1, $2, $3)
