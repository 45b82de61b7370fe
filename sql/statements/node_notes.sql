-- What status should know of a node: one entry a stage that it serves, and what is wrong: parked pools, sources that
-- cannot be read.
-- $1 bigint: node   $2 jsonb: [{"pipeline", "stage", "revision", "text"}]
update pgstage.node set notes = $2::jsonb where id = $1::bigint and notes is distinct from $2::jsonb;
