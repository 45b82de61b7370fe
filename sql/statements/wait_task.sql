-- How far a task has come with a version that was submitted.
-- $1 text: pipeline   $2 text: key   $3 bigint: version
-- columns: state (done, failed, cancelled, open), stage, error_text, output (of the last stage, of the version that is
--          done), id (another one: the task was forgotten, and the key came again)
-- A version that is done stays so when a newer one is on its way; it failed or was cancelled when no newer one is.
select case when t.done_version >= $3::bigint then 'done'
            when t.version >= $3::bigint and t.status in ('failed', 'cancelled') then t.status
            else 'open' end as state,
       s.name as stage, t.error_text,
       (select o.value from pgstage.output o
         where o.task = t.id and o.version = t.done_version
           and o.stage = case when t.status = 'done' then t.stage
                              else (select r.stage from pgstage.revision_stage r
                                     where r.pipeline = p.id and r.revision = p.revision
                                     order by r.position desc limit 1) end) as output,
       t.id
  from pgstage.pipeline p
  join pgstage.task t on t.pipeline = p.id and t.key = $2::text
  join pgstage.stage s on s.id = t.stage
 where p.name = $1::text;
