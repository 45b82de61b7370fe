-- Takes tasks back from nodes whose lease has ended, and from nodes that are no longer known. Repeats status, claim and
-- the ended lease under the row's lock. A task whose node was lost ten times is quarantined.
-- Rows are looked up one by one, in a lateral join that cannot be flattened: no estimate makes the planner scan the table.
-- $1 int: at most      columns: id, status
with orphaned as materialized (
    select b.claim, u.task
      from pgstage.claim_batch b cross join unnest(b.ids) u(task)
     where not exists (select 1 from pgstage.node n where n.id = b.node and not n.ended)
), locked as materialized (
    select t.*
      from orphaned h
      cross join lateral (
          select t.id, t.pipeline, t.stage, t.node, t.version, t.claimed_version, t.wish, t.run_at, t.rescues, t.attempt
            from pgstage.task t
           where t.id = h.task and t.status = 'running' and t.claim = h.claim
             and not exists (select 1 from pgstage.node n where n.id = t.node and not n.ended)
             for update of t skip locked) t
     limit $1::int
), settled as materialized (
    select k.id, k.pipeline, k.stage as old_stage, k.attempt, k.claimed_version, k.run_at,
           k.version <> k.claimed_version and k.wish is null as afresh, l.status, l.stage
      from locked k
      cross join lateral (select pgstage.stage_order(p.id, p.revision) as stages
                            from pgstage.pipeline p where p.id = k.pipeline) o
      cross join lateral pgstage.leave(k.wish, k.version <> k.claimed_version, k.run_at,
                                       case when k.rescues >= 9 then 'failed' else 'ready' end,
                                       k.stage, o.stages[1]) l
), rescued as (
    update pgstage.task t
       set status = k.status, stage = k.stage,
           ready_stage = case when k.status = 'ready' then k.stage end,
           ready_at = pgstage.now(),
           due_at = case when k.status = 'delayed' then k.run_at end,
           parked_at = case when k.status in ('cancelled', 'failed') then pgstage.now() end,
           end_time = case when k.status in ('cancelled', 'failed') then pgstage.now() end,
           wish = null, updated = pgstage.now(),
           attempt = case when k.afresh then 0 else t.attempt end,
           crashes = case when k.afresh then 0 else t.crashes end,
           rescues = case when k.afresh then 0 else t.rescues + 1 end,
           error_text = case when k.afresh then null
                             when k.status = 'failed' then 'quarantined: its node was lost ten times while it ran'
                             else t.error_text end
      from settled k
     where t.id = k.id and t.id = any (array(select x.id from locked x))
    returning t.id, t.status, t.stage
), noted as (
    insert into pgstage.failure (task, stage, version, attempt, kind, error_text)
    select k.id, k.old_stage, k.claimed_version, k.attempt, 'quarantine',
           'its node was lost ten times while it ran'
      from settled k where k.status = 'failed'
), counted as (
    insert into pgstage.task_count_delta (pipeline, stage, status, n)
    select d.pipeline, d.stage, d.status, sum(d.n)
      from (select k.pipeline, k.old_stage as stage, 'running' as status, -1 as n from settled k
            union all select k.pipeline, k.stage, k.status, 1 from settled k) d
     group by d.pipeline, d.stage, d.status having sum(d.n) <> 0
), woken as (
    select pgstage.wake(array_agg(distinct r.stage)) from rescued r having count(*) > 0
)
select r.id, r.status from rescued r left join woken on true order by r.id;
