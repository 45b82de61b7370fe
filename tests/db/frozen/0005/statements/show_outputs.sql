-- What the stages of a task returned. A stage that the current definition does not have comes last.
-- $1 bigint: task      columns: stage, version, made, bytes, value
select s.name as stage, o.version, to_jsonb(o.made) #>> '{}' as made, octet_length(o.value::text) as bytes, o.value
  from pgstage.output o join pgstage.stage s on s.id = o.stage
  join pgstage.task t on t.id = o.task
  left join pgstage.pipeline p on p.id = t.pipeline
  left join pgstage.revision_stage r on r.pipeline = p.id and r.revision = p.revision and r.stage = o.stage
 where o.task = $1::bigint order by o.version, r.position nulls last, s.name;
