-- Enqueue one job: awa.enqueue_one does the work and says what it locks.
--   $1 kind, $2 queue, $3 priority, $4 args (text of JSON), $5 run_at or null, $6 seconds from now or null, $7 max_attempts,
--   $8 timeout in seconds or null, $9 tags or null, $10 metadata or null, $11 trace context or null
--   $12 states in which its unique key is held; null: it has none, and $13 to $16 do not matter
--   $13 key by queue, $14 key by all args, $15 key by these fields or null, $16 seconds of the key's period or null
-- Answers the id of the new job or, its sign turned, of the one that holds the key.
select awa.enqueue_one(
    $1::text,
    $2::text,
    $3::smallint,
    $4::text::jsonb,
    coalesce($5::timestamptz, now() + make_interval(secs => $6::double precision)),
    $7::smallint,
    make_interval(secs => $8::double precision),
    $9::text[],
    $10::jsonb,
    $11::text,
    case when $12::smallint is not null then
        awa.unique_key(
            $1,
            case when $13::boolean then $2 end,
            case when $14::boolean or $15::text[] is not null then $4::text::jsonb end,
            $15,
            $16::double precision,
            coalesce($5, now() + make_interval(secs => $6), now()))
    end,
    $12
) as "outcome!"
