-- Claims as claim.sql does, of a stage with max_running or (fair) those that are ready longest whatever their priority; see
-- pgstage.claim_some. One row of nulls: another node is claiming there, come again soon.
-- $1 int: stage   $2 int: at most   $3 bigint: claim   $4 bigint: node   $5 int, $6 timestamptz: where the last claim
-- ended, as in claim.sql   $7 int: the stage before it in the node's definition   $8 boolean: fair
-- columns: id, version, key, payload, input, priority, ready_at, attempt, crashes, rescues, superseded, updated_at,
--          waited_us
select * from pgstage.claim_some($1::int, $2::int, $3::bigint, $4::bigint, $5::int, $6::timestamptz, $7::int, $8::boolean);
