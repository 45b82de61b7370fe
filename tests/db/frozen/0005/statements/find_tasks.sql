-- Tasks of a pipeline, by key or by what they are, in id order after a cursor. Best sent without a name: planned with its
-- parameters, it uses the partial index of the status.
-- $1 text: pipeline   $2 text[]: keys, null for all   $3 text: status, null for all   $4 text: stage, null for all
-- $5 text: key pattern (like), null for all   $6 text: error pattern (like), null for all
-- $7 bigint: unchanged for that many ms, null for all   $8 bigint: ids above   $9 int: at most
-- $10 boolean: none that is done or cancelled
-- columns: id, key, stage, status, version, attempt, priority, task_updated_at, updated, due_at, error_text (instants in
-- ISO 8601)
select t.id, t.key, s.name as stage, t.status, t.version, t.attempt, t.priority,
       to_jsonb(t.task_updated_at) #>> '{}' as task_updated_at, to_jsonb(t.updated) #>> '{}' as updated,
       to_jsonb(t.due_at) #>> '{}' as due_at, t.error_text
  from pgstage.task t
  join pgstage.pipeline p on p.id = t.pipeline
  join pgstage.stage s on s.id = t.stage
 where p.name = $1::text
   and ($2::text[] is null or t.key = any($2::text[]))
   and ($3::text is null or (t.status = $3::text
        and ($3::text not in ('failed', 'waiting', 'cancelled') or t.parked_at is not null)
        and ($3::text <> 'ready' or t.ready_stage is not null)
        and ($3::text <> 'delayed' or t.due_at is not null)))
   and ($4::text is null or s.name = $4::text)
   and ($5::text is null or t.key like $5::text)
   and ($6::text is null or t.error_text like $6::text)
   and ($7::bigint is null or t.updated < pgstage.now() - $7::bigint * interval '1 ms')
   and (not $10::boolean or t.status not in ('done', 'cancelled'))
   and t.id > $8::bigint
 order by t.id
 limit $9::int;
