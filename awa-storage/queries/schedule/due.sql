-- Up to $1 schedules that ask for something now, and in how many seconds the next time of any comes; one row of nulls but for
-- that where none does. Index: none; there is a row for each schedule. Locks nothing.
select upcoming.next_in,
       due.name as "name?",
       due.expression as "expression?",
       due.timezone as "timezone?",
       due.missed as "missed?",
       due.catch_up_max as "catch_up_max?",
       due.revision as "revision?",
       due.planned as "planned?",
       due.next_at as "next_at?",
       due.is_waiting as "is_waiting?",
       due.now as "now?"
  from (select awa.next_schedule_in() as next_in) as upcoming
  left join awa.due_schedules($1) as due on true
