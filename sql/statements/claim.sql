-- Claims at most $2 ready tasks of one stage, most urgent and then longest ready first. Nothing when the claim is known
-- already: it was sent before, and what it got then is released as unknown to its node.
-- $1 int: stage   $2 int: at most   $3 bigint: claim   $4 bigint: node   $5 int, $6 timestamptz: start a second before
-- (priority, ready_at), where the last claim ended; both null for the front   $7 int: the stage before it in the
-- node's definition, null for none: its output is the input of a task of which it is not known where it came from
-- A stage with max_running is claimed by claim_some.sql only, whatever the node's definition says.
-- columns: id, version, key, payload, input, priority, ready_at, attempt, crashes, rescues, superseded, updated_at,
--          waited_us (how long it was ready)
with picked as materialized (
    select t.id
      from pgstage.task t
     where t.ready_stage = $1::int
       and ($5::int is null or (t.priority, t.ready_at) >= ($5::int, $6::timestamptz - interval '1 second'))
       and exists (select 1 from pgstage.stage s join pgstage.pipeline p on p.id = s.pipeline
                    where s.id = $1::int and not s.paused and not p.paused and s.max_running is null)
       and exists (select 1 from pgstage.node n where n.id = $4::bigint and not n.ended)
       and not exists (select 1 from pgstage.claim_batch b where b.claim = $3::bigint)
     order by t.priority, t.ready_at, t.id
     limit $2::int
       for update of t skip locked
), claimed as (
    update pgstage.task t
       set status = 'running', ready_stage = null, claim = $3::bigint, step = 0, node = $4::bigint,
           claimed_version = t.version, begin_time = pgstage.now(), updated = pgstage.now()
     where t.id = any (array(select p.id from picked p))
    returning t.id, t.version, t.key, t.payload, t.priority, t.ready_at, t.attempt, t.crashes, t.rescues,
              t.superseded, t.task_updated_at, t.pipeline,
              coalesce(case when t.way_version = t.version and t.came_to = $1::int then t.came_from end,
                       $7::int) as fed_by
), batch as (
    insert into pgstage.claim_batch (claim, node, stage, ids)
    select $3::bigint, $4::bigint, $1::int, array_agg(c.id) from claimed c having count(*) > 0
), counted as (
    insert into pgstage.task_count_delta (pipeline, stage, status, n)
    select c.pipeline, $1::int, d.status, d.sign * count(*)
      from claimed c cross join (values ('ready', -1), ('running', 1)) d(status, sign)
     group by c.pipeline, d.status, d.sign
)
select c.id, c.version, c.key, c.payload, o.value as input, c.priority, c.ready_at, c.attempt, c.crashes, c.rescues,
       c.superseded, c.task_updated_at as updated_at,
       greatest(0, extract(epoch from pgstage.now() - c.ready_at) * 1000000)::bigint as waited_us
  from claimed c
  left join pgstage.output o on o.task = c.id and o.stage = c.fed_by and o.version = c.version
 order by c.priority, c.ready_at, c.id;
