-- Registers a definition; see pgstage.register.
-- $1 text: pipeline   $2 text: definition   $3 text[]: stage names in order   $4 text: run or apply
-- $5 text: path of the file      columns: pipeline, revision, stages, outcome, detail
select pipeline, revision, stages, outcome, detail
  from pgstage.register($1::text, $2::text, $3::text[], $4::text, $5::text);
