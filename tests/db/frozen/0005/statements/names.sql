-- Which pipelines and stages there are.      columns: pipeline, stage (null: it has none), current (in the definition)
select p.name as pipeline, s.name as stage, r.position is not null as current
  from pgstage.pipeline p
  left join pgstage.stage s on s.pipeline = p.id
  left join pgstage.revision_stage r on r.pipeline = p.id and r.revision = p.revision and r.stage = s.id
 order by p.name, r.position nulls last, s.name;
