-- Folds the appended counts. Deltas that are added meanwhile are folded next time.
with taken as (
    delete from pgstage.task_count_delta returning pipeline, stage, status, n
), sums as (
    select pipeline, stage, status, sum(n) as n from taken group by pipeline, stage, status
)
insert into pgstage.task_count as c (pipeline, stage, status, n)
select pipeline, stage, status, n from sums order by pipeline, stage, status
on conflict (pipeline, stage, status) do update set n = c.n + excluded.n;
