-- Schedules whose last tick could not be fired, or is overdue by more than ten seconds.
-- $1 text: pipeline, null for all
-- columns: pipeline, schedule, tick (ISO 8601; null: overdue), error_text, overdue_ms
select p.name as pipeline, s.name as schedule, to_jsonb(f.tick) #>> '{}' as tick, f.error_text,
       (extract(epoch from pgstage.now() - s.next_at) * 1000)::bigint as overdue_ms
  from pgstage.schedule s join pgstage.pipeline p on p.id = s.pipeline
  left join lateral (select k.tick, k.outcome, k.error_text from pgstage.schedule_fire k
                      where k.schedule = s.id order by k.tick desc limit 1) l on true
  left join lateral (select l.tick, l.error_text where l.outcome = 'failed') f on true
 where ($1::text is null or p.name = $1::text)
   and (f.tick is not null or (not s.paused and s.next_at < pgstage.now() - interval '10 s'))
 order by p.name, s.name;
