-- Folds the runs of minutes that are over into one row a stage and minute, and forgets those older than a day. What is
-- folded already is left alone: this runs every other second.
with many as materialized (
    select z.stage, z.minute from pgstage.stage_stat z
     where z.minute < date_trunc('minute', pgstage.now()) - interval '1 minute'
       and z.minute > pgstage.now() - interval '1 day'
     group by z.stage, z.minute having count(*) > 1
), taken as (
    delete from pgstage.stage_stat z using many m where z.stage = m.stage and z.minute = m.minute
    returning z.stage, z.minute, z.runs, z.failed, z.run_us
), forgotten as (
    delete from pgstage.stage_stat z where z.minute <= pgstage.now() - interval '1 day'
)
insert into pgstage.stage_stat (stage, minute, runs, failed, run_us)
select t.stage, t.minute, sum(t.runs), sum(t.failed), sum(t.run_us) from taken t group by t.stage, t.minute;
