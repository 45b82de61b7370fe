-- 0015: a period of a task's own.
-- compatible: 5

create table pgstage.periodic (
    task     bigint primary key references pgstage.task on delete cascade,
    every_ms bigint not null check (every_ms > 0),
    due_at   timestamptz not null
);
create index periodic_due on pgstage.periodic (due_at, task);

-- Gives tasks of a pipeline a period; null or 0 ends it. One that has the same period already keeps its due time; else it
-- is first due a period from now, or from its start if that is later.
create function pgstage.set_periods(pipeline_name text, keys text[], every_ms bigint[]) returns void language plpgsql
as $$
#variable_conflict use_column
begin
    delete from pgstage.periodic d
     using pgstage.task t, pgstage.pipeline p, unnest(keys, set_periods.every_ms) u(key, every_ms)
     where d.task = t.id and t.pipeline = p.id and p.name = pipeline_name and t.key = u.key
       and coalesce(u.every_ms, 0) = 0;
    insert into pgstage.periodic as d (task, every_ms, due_at)
    select t.id, u.every_ms, greatest(t.due_at, pgstage.now()) + u.every_ms * interval '1 ms'
      from pgstage.pipeline p
      join pgstage.task t on t.pipeline = p.id
      join unnest(keys, set_periods.every_ms) u(key, every_ms) on u.key = t.key
     where p.name = pipeline_name and u.every_ms > 0
     order by t.id
    on conflict (task) do update set every_ms = excluded.every_ms, due_at = excluded.due_at
     where d.every_ms <> excluded.every_ms;
end
$$;

-- Runs tasks again whose period is over, as a rerun does: a running one is only marked. The next time is counted from the
-- last one; those that lie in the past are left out. Waits for no lock: what is locked is due at the next call as well.
create function pgstage.run_periods(at_most int) returns bigint language plpgsql
as $$
declare
    due bigint[];
begin
    select array_agg(d.task) into due
      from (select p.task from pgstage.periodic p join pgstage.task t on t.id = p.task
             where p.due_at <= pgstage.now()
             order by p.due_at, p.task limit at_most for update of t, p skip locked) d;
    update pgstage.periodic p
       set due_at = p.due_at + (floor(extract(epoch from pgstage.now() - p.due_at) * 1000 / p.every_ms) + 1)
                               * p.every_ms * interval '1 ms'
     where p.task = any(due);
    return pgstage.rerun_tasks(due, null);
end
$$;

-- Tasks that are not at their end are cancelled; running ones are marked, and their node is told within a second. A period
-- ends, also that of a task which is at its end.
create or replace function pgstage.cancel_tasks(ids bigint[]) returns bigint language plpgsql
as $$
declare
    touched bigint;
begin
    with locked as materialized (
        select t.id, t.pipeline, t.stage, t.status from pgstage.task t
         where t.id = any(ids) and t.status in ('ready', 'running', 'delayed', 'waiting', 'failed')
         order by t.pipeline, t.key for update of t
    ), changed as (
        update pgstage.task t
           set status = case when l.status = 'running' then 'running' else 'cancelled' end,
               wish = case when l.status = 'running' then 'cancel' end,
               ready_stage = null, due_at = null,
               parked_at = case when l.status = 'running' then null else pgstage.now() end,
               end_time = case when l.status = 'running' then t.end_time else pgstage.now() end,
               updated = pgstage.now()
          from locked l where t.id = l.id
        returning t.id, t.pipeline, t.stage, l.status as old_status
    ), counted as (
        insert into pgstage.task_count_delta (pipeline, stage, status, n)
        select d.pipeline, d.stage, d.status, sum(d.n)
          from (select c.pipeline, c.stage, c.old_status as status, -1 as n from changed c
                 where c.old_status <> 'running'
                union all select c.pipeline, c.stage, 'cancelled', 1 from changed c
                 where c.old_status <> 'running') d
         group by d.pipeline, d.stage, d.status
    )
    select count(*) into touched from changed c;
    delete from pgstage.periodic p where p.task = any(ids);
    return touched;
end
$$;
