-- How long a job waits before its next attempt: min(2^attempt s, 24 h) plus up to 25 % jitter.
--   p_attempt  the attempt that has just ended, counted from 1
-- The exponent is clamped before anything is built from it, so no attempt number overflows.
create or replace function awa.backoff(p_attempt integer) returns interval
    language sql volatile parallel safe
    set search_path = pg_catalog, pg_temp
return make_interval(
    secs => least(power(2, least(greatest(p_attempt, 0), 17)), 86400) * (1 + random() * 0.25)
);
