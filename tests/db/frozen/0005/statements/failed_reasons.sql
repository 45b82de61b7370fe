-- Why tasks stand failed, the most frequent reasons first.
-- $1 text: pipeline      columns: n, stage, reason, example
select count(*) as n, s.name as stage, coalesce(left(t.error_text, 200), '') as reason, min(t.key) as example
  from pgstage.task t join pgstage.pipeline p on p.id = t.pipeline join pgstage.stage s on s.id = t.stage
 where p.name = $1::text and t.status = 'failed' and t.parked_at is not null
 group by s.name, coalesce(left(t.error_text, 200), '')
 order by count(*) desc, min(t.key) limit 10;
