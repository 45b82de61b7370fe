-- Adds what a node has run since its last tick.
-- $1 int[]: stages   $2 bigint[]: runs   $3 bigint[]: failed   $4 bigint[]: microseconds in the handler
insert into pgstage.stage_stat (stage, minute, runs, failed, run_us)
select u.stage, date_trunc('minute', pgstage.now()), u.runs, u.failed, u.run_us
  from unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[]) u(stage, runs, failed, run_us);
