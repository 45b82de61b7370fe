-- Folds the runs of minutes that are over into one row a stage and minute. What is folded already is left alone: this runs
-- every other second. What nobody led in time to fold becomes part of its hour later on.
with many as materialized (
    select z.stage, z.minute from pgstage.stage_stat z
     where z.minute < date_trunc('minute', pgstage.now()) - interval '1 minute'
       and z.minute > pgstage.now() - interval '1 hour'
     group by z.stage, z.minute having count(*) > 1
     order by z.minute limit 100
), taken as (
    delete from pgstage.stage_stat z using many m where z.stage = m.stage and z.minute = m.minute and not z.hour
    returning z.*
)
insert into pgstage.stage_stat (stage, minute, runs, failed, run_us, waits, wait_us, run_buckets, wait_buckets)
select t.stage, t.minute, sum(t.runs), sum(t.failed), sum(t.run_us), sum(t.waits), sum(t.wait_us),
       pgstage.sum_buckets(array(select unnest(x.run_buckets) from taken x where x.stage = t.stage and x.minute = t.minute)),
       pgstage.sum_buckets(array(select unnest(x.wait_buckets) from taken x where x.stage = t.stage and x.minute = t.minute))
  from taken t group by t.stage, t.minute;
