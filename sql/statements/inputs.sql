-- What earlier stages returned, for tasks that a node holds and whose stage asks for it. A statement of its own behind the
-- claims: its snapshot sees what the claims saw of the tasks, and a claim of a stage that asks for nothing costs nothing. The
-- sub-selects hide from the planner how many there are: knowing it, it would plan anew each time, at five times the cost.
-- $1 bigint[]: claims   $2 bigint[]: a task of the claim, null for all that it took   $3 int[]: a stage
-- columns: task, stage, value (null: the stage has returned nothing in the version that was claimed). No row: the task is not
--          held under the claim
select t.id as task, u.stage, o.value
  from unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::int[])) u(claim, task, stage)
  cross join lateral (
      select u.task as id
      union all
      select unnest(b.ids) from pgstage.claim_batch b where b.claim = u.claim and u.task is null) i
  cross join lateral (
      select t.id, t.claimed_version from pgstage.task t
       where t.id = i.id and t.status = 'running' and t.claim = u.claim offset 0) t
  left join pgstage.output o on o.task = t.id and o.stage = u.stage and o.version = t.claimed_version
 order by t.id, u.stage;
