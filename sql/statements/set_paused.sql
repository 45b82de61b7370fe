-- Pauses, or lets go on; see pgstage.set_paused. Whether the pipeline is paused as a whole then: a call for a stage leaves
-- that as it is.
-- $1 text: pipeline   $2 text: stage, null for the pipeline as a whole   $3 boolean: paused      columns: pipeline_paused
select case when $2::text is null then $3::boolean else p.paused end as pipeline_paused
  from pgstage.set_paused($1::text, $2::text, $3::boolean) done
 cross join pgstage.pipeline p
 where p.name = $1::text;
