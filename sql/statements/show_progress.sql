-- How far the stage is that a task is at, as its run said last. Of the version that runs, or will run next.
-- $1 bigint: task      columns: stage, version, fraction, text, at
select s.name as stage, p.version, p.fraction, p.text, to_jsonb(p.at) #>> '{}' as at
  from pgstage.progress p join pgstage.task t on t.id = p.task join pgstage.stage s on s.id = p.stage
 where p.task = $1::bigint and p.stage = t.stage
   and p.version = case when t.status = 'running' then t.claimed_version else t.version end;
