-- The unique key of a job: the one computation behind every path, so that languages cannot disagree.
--   p_kind     always part of the key
--   p_queue    part of the key; null: the same key in every queue
--   p_args     part of the key, in the form of awa.canonical_json; null: whatever the arguments
--   p_fields   the top-level fields of p_args that count, in any order; null: all of p_args. A field that is missing differs
--              from one that is null.
--   p_period   seconds of a period counted from 1970-01-01 UTC; null: no period
--   p_at       the due time, which says which period
-- Answers 16 bytes: the head of SHA-256 over "awa1" and the parts, each as a letter, a four-byte length and the bytes.
-- Reads no table.
create or replace function awa.unique_key(
    p_kind text,
    p_queue text,
    p_args jsonb,
    p_fields text[],
    p_period double precision,
    p_at timestamptz
)
    returns bytea
    language plpgsql stable
    security definer
    set search_path = pg_catalog, pg_temp
as $unique_key$
declare
    encoded bytea := 'awa1';
    part    bytea;
    period  bigint;
begin
    part := convert_to(p_kind, 'UTF8');
    encoded := encoded || 'k'::bytea || int4send(length(part)) || part;
    if p_queue is not null then
        part := convert_to(p_queue, 'UTF8');
        encoded := encoded || 'q'::bytea || int4send(length(part)) || part;
    end if;
    if p_args is not null and p_fields is null then
        part := convert_to(awa.canonical_json(p_args), 'UTF8');
        encoded := encoded || 'a'::bytea || int4send(length(part)) || part;
    end if;
    if p_fields is not null then
        part := (
            select string_agg(
                       'f'::bytea || int4send(length(field.name)) || field.name
                           || coalesce('v'::bytea || int4send(length(field.value)) || field.value, ''),
                       '' order by field.name)
              from (select distinct convert_to(listed.name, 'UTF8') as name,
                                    convert_to(awa.canonical_json(p_args -> listed.name), 'UTF8') as value
                      from unnest(p_fields) as listed (name)) as field
        );
        encoded := encoded || coalesce(part, '');
    end if;
    if p_period is not null then
        period := round(p_period * 1000000)::bigint;
        part := int8send(period) || int8send(floor(extract(epoch from p_at)::numeric * 1000000 / period)::bigint);
        encoded := encoded || 'p'::bytea || int4send(length(part)) || part;
    end if;
    return substring(sha256(encoded) for 16);
end
$unique_key$;
