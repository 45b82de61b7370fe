-- Forgets the next of what prune_count counts, in the order of their ids.
-- $1 text: pipeline   $2 text: status   $3 bigint: older than that many ms   $4 bigint: ids above   $5 int: at most
-- columns: last_id (null: there were none), forgotten
with page as materialized (
    select f.id from pgstage.failure f join pgstage.task t on t.id = f.task join pgstage.pipeline p on p.id = t.pipeline
     where $2::text = 'errors' and p.name = $1::text and f.id > $4::bigint
       and f.at < pgstage.now() - $3::bigint * interval '1 ms'
    union all
    (select t.id from pgstage.task t join pgstage.pipeline p on p.id = t.pipeline
      where $2::text <> 'errors' and p.name = $1::text and t.status = $2::text and t.id > $4::bigint
        and pgstage.may_forget(t)
        and coalesce(t.end_time, t.parked_at, t.updated) < pgstage.now() - $3::bigint * interval '1 ms'
      order by t.id limit $5::int)
     order by id limit $5::int
)
select max(g.id) as last_id,
       case when $2::text = 'errors'
            then pgstage.forget_failures(array_agg(g.id), (select p.id from pgstage.pipeline p where p.name = $1::text),
                                         $3::bigint)
            else pgstage.forget_tasks(array_agg(g.id), $2::text, $3::bigint) end as forgotten
  from page g having count(*) > 0;
