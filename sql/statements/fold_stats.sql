-- Folds the runs of minutes that are over into one row a stage and minute, and forgets those older than a day.
with taken as (
    delete from pgstage.stage_stat where minute < date_trunc('minute', pgstage.now()) - interval '1 minute'
    returning stage, minute, runs, failed, run_us
)
insert into pgstage.stage_stat (stage, minute, runs, failed, run_us)
select stage, minute, sum(runs), sum(failed), sum(run_us) from taken
 where minute > pgstage.now() - interval '1 day'
 group by stage, minute;
