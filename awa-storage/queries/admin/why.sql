-- Why is job $1 not running, where a silence of $2 seconds means death? Bounded; locks nothing.
select reason as "reason!", explanation as "explanation!", advice as "advice!", detail::text as "detail!"
  from awa.why($1, make_interval(secs => $2))
