-- The schedules of a pipeline, with the tick that was judged last.
-- $1 text: pipeline, null for all
-- columns: pipeline, schedule, spec, timezone, do, paused, next, last, outcome, task (key of what was submitted), error_text,
--          overdue (nobody fires it)      (instants in ISO 8601)
select p.name as pipeline, s.name as schedule, s.spec, s.zone as timezone,
       s.action ->> 'do' as do, s.paused, to_jsonb(case when not s.paused then s.next_at end) #>> '{}' as next,
       to_jsonb(f.tick) #>> '{}' as last, f.outcome, t.key as task, f.error_text,
       not s.paused and s.next_at < pgstage.now() - interval '10 s' as overdue
  from pgstage.schedule s
  join pgstage.pipeline p on p.id = s.pipeline
  left join lateral (select * from pgstage.schedule_fire f where f.schedule = s.id order by f.tick desc limit 1) f on true
  left join pgstage.task t on t.id = f.task
 where $1::text is null or p.name = $1::text
 order by p.name, s.name;
