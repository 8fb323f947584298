-- How is the fleet doing, where a silence of $1 seconds means death? Bounded; locks nothing.
select awa.status(make_interval(secs => $1))::text as "status!"
