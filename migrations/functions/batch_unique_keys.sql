-- The unique keys of a batch, and which of them have to be taken: the pure half of awa.enqueue_batch.
--   Arrays in the order of the jobs; see awa.enqueue_batch.
-- Answers, in one row: the key of each job (null: none); for each job the place of its key among those wanted (null: its
-- first state does not hold the key); the keys wanted, distinct and ascending; the first job that asks for each.
-- Reads no table.
create or replace function awa.batch_unique_keys(
    p_ids bigint[],
    p_dues timestamptz[],
    p_kinds text[],
    p_queues text[],
    p_args jsonb[],
    p_unique_states smallint[],
    p_unique_by_queue boolean[],
    p_unique_by_args boolean[],
    p_unique_fields jsonb[],
    p_unique_periods double precision[]
)
    returns table (unique_keys bytea[], slots integer[], wanted_keys bytea[], wanted_ids bigint[])
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set jit = off
as $batch_unique_keys$
#variable_conflict use_column
begin
    return query
    with keyed as materialized (
        select given.place,
               given.id,
               given.states & awa.state_bit(
                   case when given.due <= now() then 'available' else 'scheduled' end::awa.job_state) <> 0 as asks,
               case when given.states is not null then
                   awa.unique_key(
                       given.kind,
                       case when given.by_queue then given.queue end,
                       case when given.by_args or given.fields is not null then given.args end,
                       case when given.fields is not null then
                           array(select jsonb_array_elements_text(given.fields))
                       end,
                       given.period,
                       given.due)
               end as unique_key
          from unnest(p_ids, p_dues, p_kinds, p_queues, p_args, p_unique_states, p_unique_by_queue, p_unique_by_args,
                      p_unique_fields, p_unique_periods) with ordinality
               as given (id, due, kind, queue, args, states, by_queue, by_args, fields, period, place)
    ),
    ranked as materialized (
        select keyed.place,
               keyed.id,
               keyed.unique_key,
               case when keyed.asks then
                   dense_rank() over (partition by keyed.asks order by keyed.unique_key)::integer
               end as slot
          from keyed
    ),
    wanted as (
        select distinct on (ranked.slot) ranked.slot, ranked.id, ranked.unique_key
          from ranked
         where ranked.slot is not null
         order by ranked.slot, ranked.place
    )
    select (select array_agg(ranked.unique_key order by ranked.place) from ranked),
           (select array_agg(ranked.slot order by ranked.place) from ranked),
           (select array_agg(wanted.unique_key order by wanted.slot) from wanted),
           (select array_agg(wanted.id order by wanted.slot) from wanted);
end
$batch_unique_keys$;
