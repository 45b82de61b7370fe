-- Pauses, current revisions, open work, and what schedules want.
-- $1 int[]: stages   $2 boolean: count open work   $3 text[]: labels of the node
-- columns: stage, paused, revision, open, limited, schedule_ms, scan
-- limited: has a max_running in the current definition
-- open: tasks that are ready, running, waiting, or delayed by a retry; 0 unless asked for
-- schedule_ms: until a schedule of the pipeline is to be looked at that the node may fire, null: never
-- scan: the newest tick (in microseconds since 1970) for which sources are to be scanned; 0: none
select s.id as stage, s.paused or p.paused as paused, p.revision,
       case when $2::boolean then
           (select coalesce(sum(c.n), 0)
              from (select n from pgstage.task_count where stage = s.id and status in ('ready', 'running', 'waiting')
                    union all
                    select n from pgstage.task_count_delta where stage = s.id
                       and status in ('ready', 'running', 'waiting')) c)
           + case when exists (select 1 from pgstage.task t
                                where t.stage = s.id and t.due_at is not null and t.run_at is distinct from t.due_at)
                  then 1 else 0 end
       else 0 end as open, s.max_running is not null as limited, c.schedule_ms, c.scan
  from pgstage.stage s join pgstage.pipeline p on p.id = s.pipeline
  cross join lateral (select ceil(extract(epoch from min(greatest(c.look_at, pgstage.now()))
                                                        filter (where c.look_at is not null and c.requires <@ $3::text[])
                                               - pgstage.now()) * 1000)::bigint as schedule_ms,
                             coalesce(extract(epoch from max(c.scanned)) * 1000000, 0)::bigint as scan
                        from pgstage.schedule c where c.pipeline = p.id) c
 where s.id = any($1::int[]);
