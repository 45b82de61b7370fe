-- The current definition of a pipeline, for `run NAME`.
-- $1 text: pipeline      columns: definition, path
select r.definition, r.path
  from pgstage.pipeline p join pgstage.revision r on r.pipeline = p.id and r.number = p.revision
 where p.name = $1::text;
