-- The newest twenty failed runs of a task.
-- $1 bigint: task      columns: at, stage, version, attempt, kind, error_text, detail
select to_jsonb(f.at) #>> '{}' as at, s.name as stage, f.version, f.attempt, f.kind, f.error_text, f.detail
  from pgstage.failure f join pgstage.stage s on s.id = f.stage
 where f.task = $1::bigint order by f.id desc limit 20;
