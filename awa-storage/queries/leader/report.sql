-- Tell as $1, who was not elected, what was done: $2. Locks the rows of awa.duties.
select awa.report_duties($1, $2) as done
