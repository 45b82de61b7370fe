-- 0011: the way of a task: routes, the limit of its steps, and how many of a stage may run at a time.
-- compatible: 5

-- What a program that does not know of these columns leaves behind is never taken for true: came_from counts only while
-- the row stands where it brought it (came_to), and all four only for the version that they were written for.
alter table pgstage.task
    add column came_from   int,                          -- the stage whose completion brought the row to came_to
    add column came_to     int,
    add column steps       int not null default 0,       -- transitions accepted since the version began
    add column looped      boolean not null default false, -- a route took it back: a stage may run twice in this version
    add column way_version bigint;                       -- the version that these are of

-- As before; its parameter has the name of a column now.
create or replace function pgstage.require_steps(tasks bigint[], claims bigint[], steps int[]) returns void language plpgsql
as $$
declare
    reached bigint;
begin
    select count(*) into reached
      from pgstage.task t join unnest(tasks, claims, require_steps.steps) u(task, claim, step) on u.task = t.id
     where t.claim = u.claim and t.step = u.step;
    if reached <> cardinality(tasks) then
        raise exception 'the stages of a pipeline changed while its statements ran' using errcode = 'P0F01';
    end if;
end
$$;

-- Settings of the current revision that the claim and complete statements look at; null: none was given.
alter table pgstage.pipeline add column max_steps int;
alter table pgstage.stage add column max_running int;

-- Makes the limits of a pipeline's settings hold. Ticks hold the pipeline's lock, which the caller took alone.
create function pgstage.settle_limits(pipeline int, settings jsonb) returns void language plpgsql
as $$
begin
    update pgstage.pipeline p set max_steps = (settings ->> 'max_steps')::int
     where p.id = settle_limits.pipeline and p.max_steps is distinct from (settings ->> 'max_steps')::int;
    update pgstage.stage s set max_running = (settings -> 'stages' -> s.name ->> 'max_running')::int
     where s.pipeline = settle_limits.pipeline
       and s.max_running is distinct from (settings -> 'stages' -> s.name ->> 'max_running')::int;
end
$$;

-- Why a task is failed that made too many transitions, or was routed to a stage that is not there (astray).
-- last_stages: those it went through, the last one last.
create function pgstage.lost_way(astray boolean, target int, max_steps int, stages int[], last_stages int[])
returns text language sql stable
as $$
    select case when astray
           then format('it was routed to the stage "%s", which its pipeline does not have any more; its stages are: %s',
                       (select s.name from pgstage.stage s where s.id = target),
                       (select string_agg(s.name, ', ' order by u.place)
                          from unnest(stages) with ordinality u(id, place) join pgstage.stage s on s.id = u.id))
           else format('it made more than %s transitions (max_steps) since this version began; the last stages were: %s',
                       max_steps,
                       (select string_agg(s.name, ', ' order by u.place)
                          from unnest(last_stages) with ordinality u(id, place) join pgstage.stage s on s.id = u.id))
           end
$$;

-- The priorities at which a stage has ready tasks: as many index probes as there are, however many tasks each has.
create function pgstage.ready_priorities(stage int) returns setof int language sql stable
as $$
    with recursive levels as (
        (select t.priority from pgstage.task t where t.ready_stage = $1 order by t.priority limit 1)
        union all
        select (select t.priority from pgstage.task t
                 where t.ready_stage = $1 and t.priority > l.priority order by t.priority limit 1)
          from levels l where l.priority is not null
    )
    select l.priority from levels l where l.priority is not null
$$;

-- Locks at most at_most ready tasks of a stage, those that are ready longest whatever their priority, and returns them.
-- Rows that somebody has locked are passed by: then it looks further back, until it has enough or has seen all.
create function pgstage.lock_oldest(stage int, at_most int) returns bigint[] language plpgsql
as $$
declare
    reach int := at_most;
    seen int;
    locked bigint[];
begin
    loop
        with oldest as materialized (
            select o.id, o.ready_at
              from pgstage.ready_priorities(lock_oldest.stage) l(priority)
              cross join lateral (
                  select t.id, t.ready_at from pgstage.task t
                   where t.ready_stage = lock_oldest.stage and t.priority = l.priority
                   order by t.ready_at, t.id limit reach) o
             order by o.ready_at, o.id limit reach
        ), taken as materialized (
            select t.id
              from oldest o join pgstage.task t on t.id = o.id
             where t.ready_stage = lock_oldest.stage
             order by o.ready_at, o.id limit at_most
               for update of t skip locked
        )
        select (select count(*) from oldest), array(select k.id from taken k) into seen, locked;
        exit when cardinality(locked) >= at_most or seen < reach;
        reach := reach * 4;
    end loop;
    return locked;
end
$$;

-- Locks at most at_most ready tasks of a stage, in the order of claim.sql, and returns them.
create function pgstage.lock_urgent(stage int, at_most int, from_priority int, from_ready_at timestamptz)
returns bigint[] language plpgsql
as $$
declare
    locked bigint[];
begin
    with picked as materialized (
        select t.id from pgstage.task t
         where t.ready_stage = lock_urgent.stage
           and (from_priority is null
                or (t.priority, t.ready_at) >= (from_priority, from_ready_at - interval '1 second'))
         order by t.priority, t.ready_at, t.id
         limit at_most
           for update of t skip locked
    )
    select array(select p.id from picked p) into locked;
    return locked;
end
$$;

-- How many tasks run at a stage, on all nodes: exact when nobody can claim there meanwhile. Volatile, so that it looks with
-- a snapshot of its own.
create function pgstage.running_at(stage int) returns bigint language plpgsql
as $$
begin
    return (select count(*)
              from pgstage.stage s
              join pgstage.stage other on other.pipeline = s.pipeline
              join pgstage.claim_batch b on b.stage = other.id
              cross join unnest(b.ids) u(task)
              cross join lateral (
                  select 1 from pgstage.task t
                   where t.id = u.task and t.status = 'running' and t.claim = b.claim and t.stage = s.id offset 0) t
             where s.id = running_at.stage);
end
$$;

-- A claim of a stage with max_running, or of those that are ready longest (fair). As claim.sql, but for the choice.
-- Of a stage with max_running one claims at a time. The lock is tried in a statement of its own: what is counted then is
-- seen by a snapshot that was taken after it was got, so no claim of another node is missed. Who does not get it is told
-- so by one row of nulls, and comes again soon.
create function pgstage.claim_some(stage int, at_most int, claim bigint, node bigint, from_priority int,
                                   from_ready_at timestamptz, stage_before int, fair boolean)
returns table (id bigint, version bigint, key text, payload jsonb, input jsonb, priority int, ready_at timestamptz,
               attempt int, crashes int, rescues int, superseded int, updated_at timestamptz, waited_us bigint)
language plpgsql
as $$
#variable_conflict use_column
declare
    max_running int;
    room bigint := at_most;
    locked bigint[];
begin
    select s.max_running into max_running
      from pgstage.stage s join pgstage.pipeline p on p.id = s.pipeline
     where s.id = claim_some.stage and not s.paused and not p.paused
       and exists (select 1 from pgstage.node n where n.id = claim_some.node and not n.ended)
       and not exists (select 1 from pgstage.claim_batch b where b.claim = claim_some.claim);
    if not found then
        return;
    end if;
    if max_running is not null then
        if not pg_try_advisory_xact_lock(1885827948, claim_some.stage) then
            return query select null::bigint, null::bigint, null::text, null::jsonb, null::jsonb, null::int,
                                null::timestamptz, null::int, null::int, null::int, null::int, null::timestamptz, null::bigint;
            return;
        end if;
        room := least(at_most, max_running - pgstage.running_at(claim_some.stage));
    end if;
    if room <= 0 then
        return;
    end if;
    if fair then
        locked := pgstage.lock_oldest(claim_some.stage, room::int);
    else
        locked := pgstage.lock_urgent(claim_some.stage, room::int, from_priority, from_ready_at);
    end if;
    return query
        with claimed as (
            update pgstage.task t
               set status = 'running', ready_stage = null, claim = claim_some.claim, step = 0, node = claim_some.node,
                   claimed_version = t.version, begin_time = pgstage.now(), updated = pgstage.now()
             where t.id = any (locked)
            returning t.id, t.version, t.key, t.payload, t.priority, t.ready_at, t.attempt, t.crashes, t.rescues,
                      t.superseded, t.task_updated_at, t.pipeline,
                      coalesce(case when t.way_version = t.version and t.came_to = claim_some.stage then t.came_from end,
                               stage_before) as fed_by
        ), batch as (
            insert into pgstage.claim_batch (claim, node, stage, ids)
            select claim_some.claim, claim_some.node, claim_some.stage, array_agg(c.id)
              from claimed c having count(*) > 0
        ), counted as (
            insert into pgstage.task_count_delta (pipeline, stage, status, n)
            select c.pipeline, claim_some.stage, d.status, d.sign * count(*)
              from claimed c cross join (values ('ready', -1), ('running', 1)) d(status, sign)
             group by c.pipeline, d.status, d.sign
        )
        select c.id, c.version, c.key, c.payload, o.value, c.priority, c.ready_at, c.attempt, c.crashes, c.rescues,
               c.superseded, c.task_updated_at,
               greatest(0, extract(epoch from pgstage.now() - c.ready_at) * 1000000)::bigint
          from claimed c
          left join pgstage.output o on o.task = c.id and o.stage = c.fed_by and o.version = c.version
         order by case when not fair then c.priority end, c.ready_at, c.id;
end
$$;

-- Failed tasks are ready again at their stage with fresh counters, delayed ones at once. Returns how many.
create or replace function pgstage.retry_tasks(ids bigint[]) returns bigint language plpgsql
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
               steps = case when l.status = 'failed' then 0 else t.steps end,
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

-- A new version without a new document: every stage from from_stage on (null: the first) runs again, and every earlier one
-- that has not run for this version. Outputs of the others are confirmed for the new version. The stage it begins at gets
-- the input that it had; when that is not known any more, the output of the nearest stage before it that has one. A
-- running task is marked, and goes round from the first stage.
create or replace function pgstage.rerun_tasks(ids bigint[], from_stage text) returns bigint language plpgsql
as $$
declare
    touched bigint;
    stages int[];
begin
    with locked as materialized (
        select t.id, t.pipeline, t.stage, t.status, t.version, t.done_version, t.came_from, t.came_to, t.way_version,
               o.stages, coalesce(array_position(o.stages, f.id), 1) as from_position,
               least(coalesce(array_position(o.stages, f.id), 1),
                     case when t.done_version = t.version then cardinality(o.stages)
                          else coalesce(array_position(o.stages, t.stage), 1) end) as position
          from pgstage.task t
          cross join lateral (select pgstage.stage_order(p.id, p.revision) as stages
                                from pgstage.pipeline p where p.id = t.pipeline) o
          left join pgstage.stage f on f.pipeline = t.pipeline and f.name = from_stage
         where t.id = any(ids) and (from_stage is null or f.id = any(o.stages))
         order by t.pipeline, t.key for update of t
    ), placed as materialized (
        select l.*, l.stages[l.position] as entry,
               coalesce(case when l.from_position > 1 and l.way_version = l.version
                               and l.came_to = l.stages[l.position] then l.came_from end,
                        (select x.stage from pgstage.output x
                          where x.task = l.id and x.version = l.version and x.stage = any(l.stages[1 : l.position - 1])
                          order by array_position(l.stages, x.stage) desc limit 1)) as fed_by
          from locked l
    ), changed as (
        update pgstage.task t
           set version = t.version + 1, wish = null, updated = pgstage.now(),
               status = case when l.status = 'running' then 'running' else 'ready' end,
               stage = case when l.status = 'running' then t.stage else l.entry end,
               ready_stage = case when l.status <> 'running' then l.entry end,
               ready_at = case when l.status = 'running' then t.ready_at else pgstage.now() end,
               due_at = null, parked_at = null,
               attempt = case when l.status = 'running' then t.attempt else 0 end,
               crashes = case when l.status = 'running' then t.crashes else 0 end,
               rescues = case when l.status = 'running' then t.rescues else 0 end,
               error_text = case when l.status = 'running' then t.error_text end,
               came_from = case when l.status = 'running' then t.came_from else l.fed_by end,
               came_to = case when l.status = 'running' then t.came_to else l.entry end,
               way_version = case when l.status = 'running' then t.way_version else t.version + 1 end,
               steps = case when l.status = 'running' then t.steps else 0 end,
               looped = l.status = 'running' and t.looped
          from placed l where t.id = l.id
        returning t.id, t.pipeline, t.stage, t.status, t.version, l.stage as old_stage, l.status as old_status,
                  l.version as old_version, l.done_version, l.stages, l.position,
                  l.fed_by
    ), confirmed as (
        insert into pgstage.output as o (task, stage, version, value, made)
        select x.task, x.stage, c.version, x.value, x.made
          from changed c
          join pgstage.output x on x.task = c.id and x.version = c.old_version
         where c.status = 'ready' and x.stage = any(c.stages[1 : c.position - 1] || c.fed_by)
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
