-- Submits a set of documents; see pgstage.submit_set.
-- $1 text: pipeline   $2 text[]: keys   $3 jsonb[]: payloads   $4 timestamptz[]: stamps   $5 int[]: priorities
-- $6 timestamptz[]: run_at   $7 boolean: if_changed      columns: ordinal, outcome, task, version
select ordinal, outcome, task, version
  from pgstage.submit_set($1::text, $2::text[], $3::jsonb[], $4::timestamptz[], $5::int[], $6::timestamptz[], $7::boolean);
