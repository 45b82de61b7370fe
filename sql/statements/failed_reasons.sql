-- Why tasks stand failed: what failed in the last so many ms first, then the most frequent reasons.
-- $1 text: pipeline   $2 bigint: ms      columns: n, stage, reason, example, before (it failed earlier than that)
select count(*) as n, s.name as stage, coalesce(left(t.error_text, 200), '') as reason, min(t.key) as example,
       t.parked_at < pgstage.now() - $2::bigint * interval '1 ms' as before
  from pgstage.task t join pgstage.pipeline p on p.id = t.pipeline join pgstage.stage s on s.id = t.stage
 where p.name = $1::text and t.status = 'failed' and t.parked_at is not null
 group by s.name, coalesce(left(t.error_text, 200), ''), t.parked_at < pgstage.now() - $2::bigint * interval '1 ms'
 order by before, count(*) desc, min(t.key) limit 10;
