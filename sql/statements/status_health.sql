-- What slows everything down: changes of counts that no leader folds, and the oldest transaction that keeps dead rows.
-- columns: deltas (at most 100000), holder_pid, holder_ms (both null: none is seen), notify_percent (how full the server's
--          queue of notifications is: a session that listens and does not read fills it)
select (select count(*) from (select 1 from pgstage.task_count_delta limit 100000) d) as deltas, h.pid as holder_pid,
       (extract(epoch from clock_timestamp() - h.xact_start) * 1000)::bigint as holder_ms,
       round((pg_catalog.pg_notification_queue_usage() * 100)::numeric, 2) as notify_percent
  from (select 1) one
  left join (select a.pid, a.xact_start from pg_catalog.pg_stat_activity a
              where a.datname = current_database() and a.backend_type = 'client backend'
                and a.backend_xmin is not null and a.xact_start is not null and a.pid <> pg_backend_pid()
              order by age(a.backend_xmin) desc, a.xact_start limit 1) h on true;
