-- How many tasks, or with "errors" failed runs, pgstage prune would forget.
-- $1 text: pipeline   $2 text: status   $3 bigint: older than that many ms      columns: count
select case when $2::text = 'errors'
            then (select count(*) from pgstage.failure f join pgstage.task t on t.id = f.task
                   where t.pipeline = p.id and f.at < pgstage.now() - $3::bigint * interval '1 ms')
            else (select count(*) from pgstage.task t
                   where t.pipeline = p.id and t.status = $2::text
                     and ($2::text = 'done' or t.parked_at is not null) and pgstage.may_forget(t)
                     and coalesce(t.end_time, t.parked_at, t.updated) < pgstage.now() - $3::bigint * interval '1 ms')
       end as count
  from pgstage.pipeline p where p.name = $1::text;
