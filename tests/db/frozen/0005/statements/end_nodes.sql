-- Ends the leases of nodes that the caller has proven dead (it could lock their lock files on the same host).
-- $1 bigint[]: nodes   $2 text: host      columns: id
update pgstage.node set ended = true
 where not ended and id = any($1::bigint[]) and host = $2::text returning id;
