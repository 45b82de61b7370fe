-- Tasks at their end that have a period of their own, which would run them again: what a cancel can still end. As
-- find_tasks, of which it has the filters.
-- $1 text: pipeline   $2 text[]: keys, null for all   $3 text: status, null for all   $4 text: stage, null for all
-- $5 text: key pattern (like), null for all   $6 text: error pattern (like), null for all
-- $7 bigint: unchanged for that many ms, null for all   $8 bigint: ids above   $9 int: at most
-- columns: id, key, stage, status, left (how many there are in all)
select t.id, t.key, s.name as stage, t.status, count(*) over () as left
  from pgstage.periodic d
  join pgstage.task t on t.id = d.task and t.status in ('done', 'cancelled')
  join pgstage.pipeline p on p.id = t.pipeline
  join pgstage.stage s on s.id = t.stage
 where p.name = $1::text
   and ($2::text[] is null or t.key = any($2::text[]))
   and ($3::text is null or t.status = $3::text)
   and ($4::text is null or s.name = $4::text)
   and ($5::text is null or t.key like $5::text)
   and ($6::text is null or t.error_text like $6::text)
   and ($7::bigint is null or t.updated < pgstage.now() - $7::bigint * interval '1 ms')
   and t.id > $8::bigint
 order by t.id
 limit $9::int;
