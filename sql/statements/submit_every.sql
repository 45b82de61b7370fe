-- As submit.sql, for documents some of which say what their own period is; see pgstage.set_periods.
-- $1 .. $7: as there   $8 bigint[]: periods in ms, null to leave it, 0 to end it
-- columns: ordinal, outcome, task, version
with submitted as materialized (
    select ordinal, outcome, task, version
      from pgstage.submit_set($1::text, $2::text[], $3::jsonb[], $4::timestamptz[], $5::int[], $6::timestamptz[],
                              $7::boolean)
), counted as materialized (
    select count(*) as n from submitted -- all of them are there before a period is set
), periods as materialized (
    select pgstage.set_periods($1::text, $2::text[], $8::bigint[]) from counted where n >= 0
)
select s.ordinal, s.outcome, s.task, s.version from submitted s, periods;
