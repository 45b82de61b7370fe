-- How the stages of a pipeline did: runs, how long they took, and how long their tasks had been ready before.
-- Percentiles are those of buckets: the middle of the bucket, at most 12.2 % off. Rows of programs that knew no buckets
-- count in all but those.
-- $1 text: pipeline   $2 text: hour, day, or stage for the time as a whole   $3 bigint: since that many ms
-- columns: period (null for the time as a whole), stage, runs, failed, total_ms, mean_ms, p50_ms, p95_ms, p99_ms,
--          wait_mean_ms, wait_p95_ms
with found as materialized (
    select z.*, s.name, r.position,
           case when $2::text <> 'stage' then date_trunc($2::text, z.minute) end as period
      from pgstage.pipeline p
      join pgstage.stage s on s.pipeline = p.id
      join pgstage.stage_stat z on z.stage = s.id
      left join pgstage.revision_stage r on r.pipeline = p.id and r.revision = p.revision and r.stage = s.id
     where p.name = $1::text and z.minute >= date_trunc('minute', pgstage.now() - $3::bigint * interval '1 ms')
), sums as (
    select f.period, f.stage, f.name, f.position, sum(f.runs) as runs, sum(f.failed) as failed, sum(f.run_us) as run_us,
           sum(f.waits) as waits, sum(f.wait_us) as wait_us
      from found f group by f.period, f.stage, f.name, f.position
), buckets as (
    select f.period, f.stage, false as waits, e.n & 255 as bucket, sum(e.n >> 8) as n
      from found f cross join lateral unnest(f.run_buckets) e(n) group by f.period, f.stage, e.n & 255
    union all
    select f.period, f.stage, true, e.n & 255, sum(e.n >> 8)
      from found f cross join lateral unnest(f.wait_buckets) e(n) group by f.period, f.stage, e.n & 255
), ranked as (
    select b.*, sum(b.n) over (partition by b.period, b.stage, b.waits order by b.bucket) as upto,
           sum(b.n) over (partition by b.period, b.stage, b.waits) as total
      from buckets b
), percentiles as (
    select r.period, r.stage, min(r.bucket) filter (where not r.waits and r.upto >= 0.5 * r.total) as p50,
           min(r.bucket) filter (where not r.waits and r.upto >= 0.95 * r.total) as p95,
           min(r.bucket) filter (where not r.waits and r.upto >= 0.99 * r.total) as p99,
           min(r.bucket) filter (where r.waits and r.upto >= 0.95 * r.total) as wait_p95
      from ranked r group by r.period, r.stage
)
select to_jsonb(s.period) #>> '{}' as period, s.name as stage, s.runs, s.failed, round(s.run_us / 1000, 3) as total_ms,
       round(s.run_us / nullif(s.runs, 0) / 1000, 3) as mean_ms, pgstage.bucket_ms(p.p50) as p50_ms,
       pgstage.bucket_ms(p.p95) as p95_ms, pgstage.bucket_ms(p.p99) as p99_ms,
       round(s.wait_us / nullif(s.waits, 0) / 1000, 3) as wait_mean_ms, pgstage.bucket_ms(p.wait_p95) as wait_p95_ms
  from sums s
  left join percentiles p on p.stage = s.stage and p.period is not distinct from s.period
 order by s.period, s.position nulls last, s.name;
