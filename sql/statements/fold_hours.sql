-- Folds the oldest hour of minutes that are older than two days into one row a stage, and forgets what is older than 400
-- days. One hour a call.      columns: stage (one row each: there may be more hours)
with oldest as materialized (
    select date_trunc('hour', min(z.minute)) as hour from pgstage.stage_stat z
     where not z.hour and z.minute < date_trunc('hour', pgstage.now()) - interval '2 days'
), taken as (
    delete from pgstage.stage_stat z using oldest o
     where z.minute >= o.hour and z.minute < o.hour + interval '1 hour'
    returning z.*
), forgotten as (
    delete from pgstage.stage_stat z
     where z.ctid = any (array(select f.ctid from pgstage.stage_stat f
                                where f.minute < pgstage.now() - interval '400 days' order by f.minute limit 1000))
       and z.minute < pgstage.now() - interval '400 days'
), forgotten_guards as (
    delete from pgstage.stat_guard g where g.at < pgstage.now() - interval '1 day'
)
insert into pgstage.stage_stat (stage, minute, hour, runs, failed, run_us, waits, wait_us, run_buckets, wait_buckets)
select t.stage, o.hour, true, sum(t.runs), sum(t.failed), sum(t.run_us), sum(t.waits), sum(t.wait_us),
       pgstage.sum_buckets(array(select unnest(x.run_buckets) from taken x where x.stage = t.stage)),
       pgstage.sum_buckets(array(select unnest(x.wait_buckets) from taken x where x.stage = t.stage))
  from taken t cross join oldest o group by t.stage, o.hour
returning stage;
