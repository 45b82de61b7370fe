-- A task and the period of its own, if it has one.
-- $1 text: pipeline   $2 text: key      columns: every_ms, again_at (in ISO 8601)
select d.every_ms, to_jsonb(d.due_at) #>> '{}' as again_at
  from pgstage.pipeline p join pgstage.task t on t.pipeline = p.id left join pgstage.periodic d on d.task = t.id
 where p.name = $1::text and t.key = $2::text;
