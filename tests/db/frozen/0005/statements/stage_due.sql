-- The stager: delayed tasks whose time has come are ready. The update repeats "delayed".
-- $1 int: at most      columns: staged
with due as materialized (
    select t.id, t.due_at from pgstage.task t
     where t.due_at <= pgstage.now() and t.status = 'delayed'
     order by t.due_at, t.id
     limit $1::int
       for update of t skip locked
), staged as (
    update pgstage.task t
       set status = 'ready', ready_stage = t.stage, ready_at = due.due_at, due_at = null, updated = pgstage.now()
      from due
     where t.id = due.id and t.status = 'delayed' and t.id = any (array(select d.id from due d))
    returning t.pipeline, t.stage
), counted as (
    insert into pgstage.task_count_delta (pipeline, stage, status, n)
    select s.pipeline, s.stage, d.status, d.sign * count(*)
      from staged s cross join (values ('delayed', -1), ('ready', 1)) d(status, sign)
     group by s.pipeline, s.stage, d.status, d.sign
), woken as (
    select pgstage.wake(array_agg(distinct s.stage)) from staged s having count(*) > 0
)
select count(*) as staged from staged left join woken on true;
