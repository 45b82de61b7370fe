-- Tasks that are ready at a stage which their pipeline no longer has begin anew: a producer whose transaction was open while
-- the stage was removed, or a task that was retried after, put them there, and no node would ever claim them.
-- $1 int: at most, of each stage      columns: moved
with gone as materialized (
    select s.id, o.stages[1] as first_stage
      from pgstage.stage s
      join pgstage.pipeline p on p.id = s.pipeline
      cross join lateral (select pgstage.stage_order(p.id, p.revision) as stages) o
     where s.id <> all (o.stages)
), stranded as materialized (
    select t.id, t.stage, g.first_stage
      from gone g
      cross join lateral (
          select t.id, t.stage from pgstage.task t
           where t.ready_stage = g.id
           order by t.priority, t.ready_at, t.id
           limit $1::int
             for update of t skip locked) t
), moved as (
    update pgstage.task t
       set stage = s.first_stage, ready_stage = s.first_stage, attempt = 0, crashes = 0, rescues = 0, superseded = 0,
           error_text = null, updated = pgstage.now()
      from stranded s
     where t.id = s.id and t.id = any (array(select s.id from stranded s))
    returning t.pipeline, t.stage, s.stage as old_stage
), counted as (
    insert into pgstage.task_count_delta (pipeline, stage, status, n)
    select d.pipeline, d.stage, 'ready', sum(d.n)
      from (select m.pipeline, m.old_stage as stage, -1 as n from moved m
            union all
            select m.pipeline, m.stage, 1 from moved m) d
     group by d.pipeline, d.stage
), woken as (
    select pgstage.wake(array_agg(distinct m.stage)) from moved m having count(*) > 0
)
select count(*) as moved from moved left join woken on true;
