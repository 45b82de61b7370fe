-- The longest claim of each stage, when it is older than that: a task that still runs under it, and where. Looks up single
-- rows of the task table by id, and only for such claims.
-- $1 text: pipeline, null for all   $2 bigint: ms
-- columns: pipeline, stage (where the task stands now), key, age_ms, node, pid, host
select p.name as pipeline, s.name as stage, t.key, (extract(epoch from pgstage.now() - b.begun) * 1000)::bigint as age_ms,
       b.node, n.pid, n.host
  from (select distinct on (c.stage) c.* from pgstage.claim_batch c
         where c.begun < pgstage.now() - $2::bigint * interval '1 ms' order by c.stage, c.begun) b
  cross join lateral (select t.key, t.stage from pgstage.task t
                       where t.id = any(b.ids) and t.status = 'running' and t.claim = b.claim
                       order by t.id limit 1) t
  join pgstage.stage s on s.id = t.stage
  join pgstage.pipeline p on p.id = s.pipeline
  left join pgstage.node n on n.id = b.node
 where $1::text is null or p.name = $1::text
 order by b.begun, p.name, s.name;
