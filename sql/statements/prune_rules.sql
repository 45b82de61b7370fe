-- What is to be forgotten, as the current definitions say.
-- $1 text: pipeline, null for all      columns: pipeline, status (done, failed, cancelled, errors), keep_ms
select p.name as pipeline, r.status, r.keep_ms
  from pgstage.retention_rules() r join pgstage.pipeline p on p.id = r.pipeline
 where $1::text is null or p.name = $1::text
 order by p.name, r.status;
