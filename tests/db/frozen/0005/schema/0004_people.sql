-- 0004: what a person asks for. Rows are locked in key order, as submit_set does.

-- Failed tasks are ready again at their stage with fresh counters, delayed ones at once. Returns how many.
create function pgstage.retry_tasks(ids bigint[]) returns bigint language plpgsql
as $$
declare
    touched bigint;
    stages int[];
begin
    with locked as materialized (
        select t.id, t.pipeline, t.stage, t.status from pgstage.task t
         where t.id = any(ids) and t.status in ('failed', 'delayed') order by t.pipeline, t.key for update of t
    ), changed as (
        update pgstage.task t
           set status = 'ready', ready_stage = t.stage, ready_at = pgstage.now(), due_at = null, parked_at = null,
               attempt = case when l.status = 'failed' then 0 else t.attempt end, crashes = 0, rescues = 0,
               error_text = case when l.status = 'failed' then null else t.error_text end, end_time = null,
               updated = pgstage.now()
          from locked l where t.id = l.id
        returning t.id, t.pipeline, t.stage, l.status as old_status
    ), counted as (
        insert into pgstage.task_count_delta (pipeline, stage, status, n)
        select d.pipeline, d.stage, d.status, sum(d.n)
          from (select c.pipeline, c.stage, c.old_status as status, -1 as n from changed c
                union all select c.pipeline, c.stage, 'ready', 1 from changed c) d
         group by d.pipeline, d.stage, d.status
    )
    select count(*), array_agg(distinct c.stage) into touched, stages from changed c;
    if touched > 0 then
        perform pgstage.wake(stages);
    end if;
    return touched;
end
$$;

-- Tasks that are not at their end are cancelled; running ones are marked, and their node is told within a second.
create function pgstage.cancel_tasks(ids bigint[]) returns bigint language plpgsql
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
    select count(*) into touched from changed;
    return touched;
end
$$;

-- A new version without a new document: every stage from from_stage on (null: the first) runs again. Outputs of earlier
-- stages are confirmed for the new version. A running task is marked, and goes round from the first stage.
create function pgstage.rerun_tasks(ids bigint[], from_stage text) returns bigint language plpgsql
as $$
declare
    touched bigint;
    stages int[];
begin
    with locked as materialized (
        select t.id, t.pipeline, t.stage, t.status, t.version, t.done_version, o.stages,
               coalesce(array_position(o.stages, f.id), 1) as position
          from pgstage.task t
          cross join lateral (select pgstage.stage_order(p.id, p.revision) as stages
                                from pgstage.pipeline p where p.id = t.pipeline) o
          left join pgstage.stage f on f.pipeline = t.pipeline and f.name = from_stage
         where t.id = any(ids) and (from_stage is null or f.id = any(o.stages))
         order by t.pipeline, t.key for update of t
    ), changed as (
        update pgstage.task t
           set version = t.version + 1, wish = null, updated = pgstage.now(),
               status = case when l.status = 'running' then 'running' else 'ready' end,
               stage = case when l.status = 'running' then t.stage else l.stages[l.position] end,
               ready_stage = case when l.status <> 'running' then l.stages[l.position] end,
               ready_at = case when l.status = 'running' then t.ready_at else pgstage.now() end,
               due_at = null, parked_at = null,
               attempt = case when l.status = 'running' then t.attempt else 0 end,
               crashes = case when l.status = 'running' then t.crashes else 0 end,
               rescues = case when l.status = 'running' then t.rescues else 0 end,
               error_text = case when l.status = 'running' then t.error_text end
          from locked l where t.id = l.id
        returning t.id, t.pipeline, t.stage, t.status, t.version, l.stage as old_stage, l.status as old_status,
                  l.version as old_version, l.done_version, l.stages, l.position
    ), confirmed as (
        insert into pgstage.output as o (task, stage, version, value, made)
        select x.task, x.stage, c.version, x.value, x.made
          from changed c
          join pgstage.output x on x.task = c.id and x.version = c.old_version
         where c.status = 'ready' and x.stage = any(c.stages[1 : c.position - 1])
        on conflict (task, stage, version) do nothing
    ), counted as (
        insert into pgstage.task_count_delta (pipeline, stage, status, n)
        select d.pipeline, d.stage, d.status, sum(d.n)
          from (select c.pipeline, c.old_stage as stage, c.old_status as status, -1 as n from changed c
                union all select c.pipeline, c.stage, c.status, 1 from changed c) d
         group by d.pipeline, d.stage, d.status having sum(d.n) <> 0
    )
    select count(*), array_agg(distinct c.stage) into touched, stages from changed c;
    if touched > 0 then
        perform pgstage.wake(stages);
    end if;
    return touched;
end
$$;
