-- Writes what happened to tasks under their claims: transitions that were made in memory, and how the run ends.
--
-- One row a task. The fence is (task, claim, first step .. first step + count, running): the part of a re-sent chain that
-- was accepted before is not applied again. The next stage comes from the current revision: a chain that was run under
-- another definition is accepted as far as that one agrees, no further. Rows that are locked are skipped: "busy".
--
-- $1 bigint[] task   $2 bigint[] claim   $3 int[] first step   $4 int[] count of transitions
-- $5 int[] stage of the first transition   $6 int[] revision the chain was run under
-- $7 text[] ending: stay (the claim goes on), next, ready (release), delayed, failed; route (to the stage $18 after the
--    last transition), finish (done after it); keep (next, but when a newer version is stored and a stage follows: stay)
-- $8 int[] attempts, $9 int[] crashes, $10 int[] rescues to add   $11 bigint[] delay in ms
-- $12 text[] kind of failure, null for none   $13 text[] reason   $14 text[] last output
-- outputs, one row each:  $15 bigint[] task   $16 int[] which transition (0 ..)   $17 jsonb[] value
-- $18 int[] the stage that a route goes to, 0 for none
-- $19 bigint[] tasks that may have progress: that of stages that ended well goes
-- A task that has made more transitions since its version began than the pipeline's max_steps is failed where it stands
-- then, unless it is done.
-- columns: task, claim, answer (accepted, applied, busy, refused), step, stage, status
with input as materialized (
    select * from unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::int[], $6::int[], $7::text[],
                         $8::int[], $9::int[], $10::int[], $11::bigint[], $12::text[], $13::text[], $14::text[],
                         $18::int[])
      as u(task, claim, first_step, count, first_stage, revision, ending, attempts, crashes, rescues, delay_ms,
           kind, reason, detail, target)
     order by u.task
), locked as materialized (
    -- One by one: no estimate makes the planner scan the table for them.
    select t.*
      from input i
      cross join lateral (
          select t.id, t.pipeline, t.stage, t.status, t.claim, t.step, t.version, t.claimed_version, t.wish, t.attempt,
                 t.crashes, t.rescues, t.superseded, t.ready_at, t.run_at,
                 case when t.way_version = t.claimed_version then t.steps else 0 end as steps
            from pgstage.task t where t.id = i.task for update of t skip locked) t
), orders as materialized (
    select p.id as pipeline, p.revision, pgstage.stage_order(p.id, p.revision) as stages,
           coalesce(p.max_steps, 1000) as max_steps
      from pgstage.pipeline p where p.id in (select l.pipeline from locked l)
), fenced as materialized (
    select i.*, l.pipeline, l.stage as old_stage, l.step, l.version, l.claimed_version, l.wish, l.attempt as old_attempt,
           l.crashes as old_crashes, l.rescues as old_rescues, l.superseded, l.ready_at, l.run_at,
           l.steps, o.max_steps, o.stages, array_position(o.stages, l.stage) as position,
           i.first_step + i.count - l.step as pending, i.revision = o.revision as agreed
      from input i
      join locked l on l.id = i.task
      join orders o on o.pipeline = l.pipeline
     where l.status = 'running' and l.claim = i.claim and l.step between i.first_step and i.first_step + i.count
), ran as materialized (
    select f.*, case when not f.agreed then pgstage.stage_order(f.pipeline, f.revision) end as run from fenced f
), accepted as materialized (
    select f.*,
           case when f.position is null then 0
                when f.agreed then f.pending
                else pgstage.common_prefix(f.stages[f.position : f.position + f.pending - 1],
                                           f.run[r.position + f.step - f.first_step : r.position + f.count - 1])
           end as taken,
           f.run[r.position + f.count] as in_hand
      from ran f
      cross join lateral (select array_position(f.run, f.first_stage) as position) r
), reached as materialized (
    -- A route to a stage that is gone ends where it was made.
    select a.*, a.last_made = 'route' and a.target <> all (a.stages) as astray,
           case when a.last_made = 'finish' then null
                when a.last_made = 'route' and a.target = any (a.stages) then a.target
                when a.last_made = 'route' then a.stages[a.position + a.taken - 1]
                else coalesce(a.stages[a.position + a.taken], case when a.taken = 0 then a.old_stage end) end
               as next_stage
      from (select c.*, case when c.taken = c.pending and c.ending in ('route', 'finish') then c.ending
                             else 'next' end as last_made
              from accepted c) a
), aimed as materialized (
    -- What the run itself wants. How it ended counts only if it ended at the stage that comes next now.
    select a.*,
           a.taken = a.pending and (a.agreed or a.in_hand is not distinct from a.next_stage) as whole,
           a.astray or (a.taken > 0 and a.steps + a.taken > a.max_steps and a.kind is null) as lost_way,
           case when a.next_stage is null or a.astray then 1 else 0 end as rests,
           a.stages[1] as first_of_all,
           a.version <> a.claimed_version as newer,
           case when a.taken > 0 then 0 else a.old_attempt end as kept_attempt,
           case when a.taken > 0 then 0 else a.old_crashes end as kept_crashes,
           case when a.taken > 0 then 0 else a.old_rescues end as kept_rescues
      from reached a
), settled as materialized (
    select a.*, e.status as new_status, e.stage as new_stage, a.newer and e.status in ('ready', 'delayed') as afresh,
           a.kept_attempt + case when a.whole then a.attempts else 0 end as new_attempt,
           a.kept_crashes + case when a.whole then a.crashes else 0 end as new_crashes,
           a.kept_rescues + case when a.whole then a.rescues else 0 end as new_rescues,
           case when a.lost_way and e.status <> 'failed' then null
                when a.lost_way then case when a.astray then 'permanent' else 'steps' end
                when a.whole then a.kind end as fault
      from aimed a
      cross join lateral (
          select case when a.ending = 'stay' then 'stay'
                      when a.next_stage is null then 'done'
                      when a.lost_way then 'failed'
                      when a.ending = 'keep' and a.newer and a.whole and a.wish is null then 'stay'
                      when not a.whole or a.ending in ('next', 'route', 'keep') then 'ready'
                      else a.ending end as want,
                 coalesce(a.next_stage, a.stages[cardinality(a.stages)]) as want_stage) w
      cross join lateral (
          select l.status, l.stage from pgstage.leave(a.wish, a.newer, a.run_at, w.want, w.want_stage, a.first_of_all) l
           where w.want <> 'stay'
          union all
          select 'running', w.want_stage where w.want = 'stay') e
), written as (
    update pgstage.task t
       set status = s.new_status,
           stage = s.new_stage,
           step = s.first_step + s.count - s.pending + s.taken,
           ready_stage = case when s.new_status = 'ready' then s.new_stage end,
           ready_at = case when s.new_status = 'ready' and s.taken = 0 and s.ending = 'ready' and s.rescues = 0
                                and s.crashes = 0 and not s.newer then s.ready_at
                           when s.new_status = 'ready' then pgstage.now() else s.ready_at end,
           due_at = case when s.new_status = 'delayed' and s.afresh then s.run_at
                         when s.new_status = 'delayed' then pgstage.now() + s.delay_ms * interval '1 ms' end,
           parked_at = case when s.new_status in ('failed', 'cancelled') then pgstage.now() end,
           wish = case when s.new_status = 'running' then t.wish end,
           attempt = case when s.afresh then 0 else s.new_attempt end,
           crashes = case when s.afresh then 0 else s.new_crashes end,
           rescues = case when s.afresh then 0 else s.new_rescues end,
           superseded = case when s.new_status = 'running' then s.superseded
                             when s.next_stage is null then 0
                             when s.afresh then s.superseded + 1
                             else s.superseded end,
           done_version = case when s.next_stage is null and s.ending <> 'stay' then s.claimed_version
                               else t.done_version end,
           error_text = case when s.afresh then null
                             when s.fault is not null and s.lost_way
                                  then pgstage.lost_way(s.astray, s.target, s.max_steps, s.stages,
                                       case when t.way_version = s.claimed_version and t.came_to = s.old_stage
                                            then t.came_from end
                                       || s.stages[s.position : s.position + s.taken - 1] || s.next_stage)
                             when s.fault is not null then s.reason
                             when s.new_status in ('done', 'ready') then null else t.error_text end,
           end_time = case when s.new_status in ('done', 'failed', 'cancelled') then pgstage.now() end,
           -- Which stage fed the one at which the row stands now, or came to rest.
           came_from = case when s.taken > s.rests then s.stages[s.position + s.taken - 1 - s.rests]
                            when t.way_version = s.claimed_version then t.came_from end,
           came_to = case when s.taken > s.rests and s.rests = 1 then s.stages[s.position + s.taken - 1]
                          when s.taken > s.rests then s.next_stage
                          when t.way_version = s.claimed_version then t.came_to end,
           steps = s.steps + s.taken, way_version = s.claimed_version,
           looped = coalesce(t.looped and t.way_version = s.claimed_version
                             or s.last_made = 'route' and array_position(s.stages, s.next_stage) < s.position + s.taken,
                             false),
           updated = pgstage.now()
      from settled s
     where t.id = s.task and t.id = any (array(select l.id from locked l))
    returning t.id, t.error_text, t.looped
), made as (
    insert into pgstage.output as o (task, stage, version, value)
    select s.task, s.stages[s.position + u.transition - (s.step - s.first_step)], s.claimed_version, u.value
      from unnest($15::bigint[], $16::int[], $17::jsonb[]) as u(task, transition, value)
      join settled s on s.task = u.task
     where u.transition >= s.step - s.first_step and u.transition < s.step - s.first_step + s.taken
    on conflict (task, stage, version) do update set value = excluded.value, made = pgstage.now()
), emptied as (
    -- A stage that runs once more in a version, and returns nothing this time.
    delete from pgstage.output o using written w join settled s on s.task = w.id
     where w.looped and o.task = s.task and o.version = s.claimed_version
       and o.stage = any (s.stages[s.position : s.position + s.taken - 1])
       and not exists (select 1 from unnest($15::bigint[], $16::int[]) as u(task, transition)
                        where u.task = s.task
                          and s.stages[s.position + u.transition - (s.step - s.first_step)] = o.stage)
), pruned as (
    delete from pgstage.output o using settled s
     where o.task = s.task and s.claimed_version > 1 and s.next_stage is null and s.ending <> 'stay'
       and o.version < s.claimed_version
), gone_by as (
    delete from pgstage.progress p using settled s
     where s.task = any ($19::bigint[]) and p.task = s.task
       and (p.version <> s.claimed_version or s.next_stage is null
            or p.stage = any (s.stages[s.position : s.position + s.taken - 1]))
), noted as (
    insert into pgstage.failure (task, stage, version, attempt, kind, error_text, detail)
    select s.task, s.next_stage, s.claimed_version, s.new_attempt, s.fault,
           coalesce(case when s.lost_way then w.error_text else s.reason end, ''), s.detail
      from settled s left join written w on w.id = s.task and s.lost_way
     where s.fault is not null and s.next_stage is not null
), counted as (
    insert into pgstage.task_count_delta (pipeline, stage, status, n)
    select d.pipeline, d.stage, d.status, sum(d.n)
      from (select s.pipeline, s.old_stage as stage, 'running' as status, -1 as n from settled s
            union all
            select s.pipeline, s.new_stage, s.new_status, 1 from settled s) d
     group by d.pipeline, d.stage, d.status having sum(d.n) <> 0
)
select i.task, i.claim,
       case when s.task is not null then 'accepted'
            when l.id is null and exists (select 1 from pgstage.task t where t.id = i.task) then 'busy'
            when l.status <> 'running' and l.claim = i.claim and l.step = i.first_step + i.count
                 and i.ending <> 'stay' then 'applied'
            else 'refused' end as answer,
       coalesce(s.first_step + s.count - s.pending + s.taken, l.step) as step,
       coalesce(s.new_stage, l.stage) as stage,
       coalesce(s.new_status, l.status) as status
  from input i
  left join locked l on l.id = i.task
  left join settled s on s.task = i.task
 order by i.task;
