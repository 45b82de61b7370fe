-- Adds what a node has run since it last said so. Sent again after a lost answer, it adds nothing: numbers of a node rise.
-- $1 int[]: stages   $2 bigint[]: runs   $3 bigint[]: failed   $4 bigint[]: microseconds in the handler
-- $5 bigint[]: runs whose wait is known   $6 bigint[]: microseconds that their tasks were ready before
-- $7 text[], $8 text[]: buckets of run times and of waits, a bigint[] each (see stage_stat)   $9 bigint: node
-- $10 bigint: number
with fresh as (
    insert into pgstage.stat_guard as g (node, seq) values ($9::bigint, $10::bigint)
    on conflict (node) do update set seq = excluded.seq, at = excluded.at where g.seq < excluded.seq
    returning node
)
insert into pgstage.stage_stat (stage, minute, runs, failed, run_us, waits, wait_us, run_buckets, wait_buckets)
select u.stage, date_trunc('minute', pgstage.now()), u.runs, u.failed, u.run_us, u.waits, u.wait_us,
       u.run_buckets::bigint[], u.wait_buckets::bigint[]
  from fresh cross join unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
                               $7::text[], $8::text[])
       u(stage, runs, failed, run_us, waits, wait_us, run_buckets, wait_buckets);
