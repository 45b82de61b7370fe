-- What stands where, from the folded counts; never from the task table.
-- $1 text: pipeline, null for all
-- columns: pipeline, stage, position (null: not in the definition), paused, ready, running, delayed, waiting, done, failed,
--          cancelled, runs_per_minute, failed_per_minute, mean_ms (all three of this minute and the last one),
--          oldest_ms (age of the oldest claim), requires (labels that a node must have to serve the stage, as --label
--          takes them; null: none)
select p.name as pipeline, s.name as stage, r.position, s.paused or p.paused as paused,
       coalesce(sum(c.n) filter (where c.status = 'ready'), 0) as ready,
       coalesce(sum(c.n) filter (where c.status = 'running'), 0) as running,
       coalesce(sum(c.n) filter (where c.status = 'delayed'), 0) as delayed,
       coalesce(sum(c.n) filter (where c.status = 'waiting'), 0) as waiting,
       coalesce(sum(c.n) filter (where c.status = 'done'), 0) as done,
       coalesce(sum(c.n) filter (where c.status = 'failed'), 0) as failed,
       coalesce(sum(c.n) filter (where c.status = 'cancelled'), 0) as cancelled,
       round(coalesce(max(x.runs), 0) * 60 / max(w.seconds), 1) as runs_per_minute,
       round(coalesce(max(x.failed), 0) * 60 / max(w.seconds), 1) as failed_per_minute,
       round(max(x.run_us / nullif(x.runs, 0)) / 1000, 3) as mean_ms,
       max(o.age_ms) as oldest_ms,
       max(q.labels) as requires
  from pgstage.pipeline p
  join pgstage.stage s on s.pipeline = p.id
  cross join (select date_trunc('minute', pgstage.now()) - interval '1 minute' as since,
                     60 + extract(epoch from pgstage.now() - date_trunc('minute', pgstage.now())) as seconds) w
  left join pgstage.revision_stage r on r.pipeline = p.id and r.revision = p.revision and r.stage = s.id
  left join (select stage, status, n from pgstage.task_count
             union all select stage, status, n from pgstage.task_count_delta) c on c.stage = s.id
  left join lateral (select sum(z.runs) as runs, sum(z.failed) as failed, sum(z.run_us) as run_us
                       from pgstage.stage_stat z where z.stage = s.id and z.minute >= w.since) x on true
  left join lateral (select (extract(epoch from pgstage.now() - min(b.begun)) * 1000)::bigint as age_ms
                       from pgstage.claim_batch b where b.stage = s.id) o on true
  left join lateral (select string_agg(l.label, ',') as labels
                       from jsonb_array_elements_text(pgstage.setting(p.id, 'stages') -> s.name -> 'requires') l(label)) q
         on true
 where ($1::text is null or p.name = $1::text)
 group by p.name, s.name, r.position, s.paused, p.paused
having r.position is not null or coalesce(sum(c.n), 0) <> 0
 order by p.name, r.position nulls last, s.name;
