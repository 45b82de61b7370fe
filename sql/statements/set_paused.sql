-- Pauses, or lets go on; see pgstage.set_paused.
-- $1 text: pipeline   $2 text: stage, null for the pipeline as a whole   $3 boolean: paused
select pgstage.set_paused($1::text, $2::text, $3::boolean);
