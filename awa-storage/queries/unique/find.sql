-- Who holds the unique key of such a job? $1 kind, $2 args (text of JSON), $3 queue, $4 rule (JSON), $5 run_at or null,
-- $6 seconds from now or null. Null: nobody. Index: awa.find_unique. Locks nothing.
select awa.find_unique(
    $1::text, $2::text::jsonb, $3::text, $4::jsonb,
    coalesce($5::timestamptz, now() + make_interval(secs => $6::double precision))) as "holder?"
