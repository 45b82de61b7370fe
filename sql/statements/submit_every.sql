-- As submit.sql, for documents some of which say what their own period is; see pgstage.set_periods. One that says nothing
-- else is no document when its task is there already: it gets its period and is not submitted.
-- $1 .. $7: as there   $8 bigint[]: periods in ms, null to leave it, 0 to end it   $9 boolean[]: says nothing else
-- columns: ordinal, outcome (also period: nothing but that was set), task, version
with given as materialized (
    select g.ordinal, g.key, g.payload, g.stamp, g.priority, g.run_at, k.id, k.version
      from unnest($2::text[], $3::jsonb[], $4::timestamptz[], $5::int[], $6::timestamptz[], $9::boolean[])
           with ordinality g(key, payload, stamp, priority, run_at, bare, ordinal)
      left join (pgstage.pipeline p join pgstage.task k on k.pipeline = p.id)
        on p.name = $1::text and k.key = g.key and g.bare
), documents as materialized (
    select coalesce(array_agg(g.ordinal order by g.ordinal), '{}') as ordinals,
           coalesce(array_agg(g.key order by g.ordinal), '{}') as keys,
           coalesce(array_agg(g.payload order by g.ordinal), '{}') as payloads,
           coalesce(array_agg(g.stamp order by g.ordinal), '{}') as stamps,
           coalesce(array_agg(g.priority order by g.ordinal), '{}') as priorities,
           coalesce(array_agg(g.run_at order by g.ordinal), '{}') as run_ats
      from given g where g.id is null
), submitted as materialized (
    select d.ordinals[s.ordinal] as ordinal, s.outcome, s.task, s.version
      from documents d,
           pgstage.submit_set($1::text, d.keys, d.payloads, d.stamps, d.priorities, d.run_ats, $7::boolean) s
), counted as materialized (
    select count(*) as n from submitted -- all of them are there before a period is set
), periods as materialized (
    select pgstage.set_periods($1::text, $2::text[], $8::bigint[]) from counted where n >= 0
)
select s.ordinal, s.outcome, s.task, s.version
  from (select * from submitted union all
        select g.ordinal, 'period', g.id, g.version from given g where g.id is not null) s, periods
 order by s.ordinal;
