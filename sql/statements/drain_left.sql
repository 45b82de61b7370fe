-- What keeps a pipeline from being drained: tasks that run anywhere, and those that stand at the stage or behind it and
-- are not delayed by their submit. Behind the first stage none is.
-- $1 text: pipeline   $2 int: position of the first stage to be empty   $3 text[]: transactions that were in flight
-- columns: stage, paused, ready, running, delayed, waiting, ticks (of $3, still in flight)
select s.name as stage, s.paused, sum(c.n) filter (where c.status = 'ready') as ready,
       sum(c.n) filter (where c.status = 'running') as running, sum(c.n) filter (where c.status = 'delayed') as delayed,
       sum(c.n) filter (where c.status = 'waiting') as waiting,
       (select count(*) from unnest(pgstage.ticks_in_flight(p.id)) x(tick) where x.tick = any($3::text[])) as ticks
  from pgstage.pipeline p
  join pgstage.revision_stage r on r.pipeline = p.id and r.revision = p.revision
  join pgstage.stage s on s.id = r.stage
  left join lateral (
      select c.status, case when c.status = 'running' or r.position >= $2::int then c.n else 0 end as n
        from (select status, n from pgstage.task_count where stage = s.id
              union all select status, n from pgstage.task_count_delta where stage = s.id) c
       where c.status in ('ready', 'running', 'waiting') or (c.status = 'delayed' and r.position > 1)
      union all
      select 'delayed', count(*) from pgstage.task t
       where r.position = 1 and $2::int = 1 and t.stage = s.id and t.due_at is not null
         and t.run_at is distinct from t.due_at) c on true
 where p.name = $1::text
 group by p.id, s.name, s.paused, r.position
 order by r.position;
