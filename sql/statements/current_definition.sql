-- The current definition of a pipeline, for `run NAME` and for nodes that reload.
-- $1 text: pipeline      columns: definition, path, pipeline, revision, stages (int[], in order)
select r.definition, r.path, p.id as pipeline, r.number as revision, pgstage.stage_order(p.id, r.number) as stages
  from pgstage.pipeline p join pgstage.revision r on r.pipeline = p.id and r.number = p.revision
 where p.name = $1::text;
