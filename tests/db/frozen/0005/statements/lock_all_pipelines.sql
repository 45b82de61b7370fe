-- As lock_pipelines, for work that may touch any task: rescue, reconnect.
select pg_advisory_xact_lock_shared(1885827947, p.id) from (select id from pgstage.pipeline order by id) p;
