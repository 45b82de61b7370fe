-- The newest twenty failed runs of a task. The attempt is the one that the run was told: stored is how many were used then,
-- and ends of these kinds use one, the others (crashes, losses) none.
-- $1 bigint: task      columns: at, stage, version, attempt, kind, error_text, detail
select to_jsonb(f.at) #>> '{}' as at, s.name as stage, f.version,
       greatest(f.attempt + case when f.kind in ('error', 'timeout', 'permanent', 'statement', 'output') then 0 else 1 end, 1) as attempt,
       f.kind, f.error_text, f.detail
  from pgstage.failure f join pgstage.stage s on s.id = f.stage
 where f.task = $1::bigint order by f.id desc limit 20;
