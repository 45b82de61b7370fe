-- Releases what is held under a node's identity but not known to it: a claim whose answer was lost, or that an old
-- backend committed after the reconnect.
-- $1 bigint: node   $2 bigint[]: known tasks   $3 bigint[]: their claims      columns: id
with held as materialized (
    select b.claim, u.task
      from pgstage.claim_batch b cross join unnest(b.ids) u(task)
     where b.node = $1::bigint
       and not exists (select 1 from unnest($2::bigint[], $3::bigint[]) k(task, claim)
                        where k.task = u.task and k.claim = b.claim)
), locked as materialized (
    select t.*
      from held h
      cross join lateral (
          select t.id, t.pipeline, t.stage, t.version, t.claimed_version, t.wish, t.run_at
            from pgstage.task t
           where t.id = h.task and t.status = 'running' and t.claim = h.claim and t.node = $1::bigint
             for update of t skip locked) t
), settled as materialized (
    select k.id, k.pipeline, k.stage as old_stage, k.run_at,
           k.version <> k.claimed_version and k.wish is null as afresh, l.status, l.stage
      from locked k
      cross join lateral (select pgstage.stage_order(p.id, p.revision) as stages
                            from pgstage.pipeline p where p.id = k.pipeline) o
      cross join lateral pgstage.leave(k.wish, k.version <> k.claimed_version, k.run_at, 'ready', k.stage, o.stages[1]) l
), released as (
    update pgstage.task t
       set status = k.status, stage = k.stage,
           ready_stage = case when k.status = 'ready' then k.stage end,
           ready_at = case when k.afresh then pgstage.now() else t.ready_at end,
           due_at = case when k.status = 'delayed' then k.run_at end,
           parked_at = case when k.status = 'cancelled' then pgstage.now() end,
           end_time = case when k.status = 'cancelled' then pgstage.now() end,
           wish = null, updated = pgstage.now(),
           attempt = case when k.afresh then 0 else t.attempt end,
           crashes = case when k.afresh then 0 else t.crashes end,
           rescues = case when k.afresh then 0 else t.rescues end,
           error_text = case when k.afresh then null else t.error_text end
      from settled k
     where t.id = k.id and t.id = any (array(select x.id from locked x))
    returning t.id
), counted as (
    insert into pgstage.task_count_delta (pipeline, stage, status, n)
    select d.pipeline, d.stage, d.status, sum(d.n)
      from (select k.pipeline, k.old_stage as stage, 'running' as status, -1 as n from settled k
            union all select k.pipeline, k.stage, k.status, 1 from settled k) d
     group by d.pipeline, d.stage, d.status having sum(d.n) <> 0
)
select id from released order by id;
