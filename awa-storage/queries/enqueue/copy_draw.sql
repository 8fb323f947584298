-- What a COPY of $1 jobs needs: the segment that takes jobs now, the time of the transaction, and ids. Sequences are shared:
-- the ids ascend, but are not consecutive. Locks nothing; a segment that is no longer the current one takes jobs as well.
select (select (ring.current % 8)::smallint from awa.ring as ring) as "segment!",
       now() as "now!",
       array(select nextval('awa.job_id') from generate_series(1, $1::bigint)) as "ids!"
