-- Tell sleeping workers of the queues $1 that jobs were copied in. In the transaction that copied them: awa.wake says why.
select awa.wake(woken.queue) from unnest($1::text[]) as woken (queue)
