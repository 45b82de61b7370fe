-- How many tasks find_tasks would find; the same filters.
-- $1 text: pipeline   $2 text: status, null for all   $3 text: stage, null for all   $4 text: key pattern (like), null
-- for all   $5 text: error pattern (like), null for all   $6 bigint: unchanged for that many ms, null for all
-- $7 boolean: none that is done or cancelled      columns: count
select count(*) as count
  from pgstage.task t
  join pgstage.pipeline p on p.id = t.pipeline
  join pgstage.stage s on s.id = t.stage
 where p.name = $1::text
   and ($2::text is null or (t.status = $2::text
        and ($2::text not in ('failed', 'waiting', 'cancelled') or t.parked_at is not null)
        and ($2::text <> 'ready' or t.ready_stage is not null)
        and ($2::text <> 'delayed' or t.due_at is not null)))
   and ($3::text is null or s.name = $3::text)
   and ($4::text is null or t.key like $4::text)
   and ($5::text is null or t.error_text like $5::text)
   and ($6::bigint is null or t.updated < pgstage.now() - $6::bigint * interval '1 ms')
   and (not $7::boolean or t.status not in ('done', 'cancelled'));
