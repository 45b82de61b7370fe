-- Nodes of one host whose lease has not ended: the caller looks which of them are dead.
-- $1 text: host   $2 bigint: the caller      columns: id, lock_path
select id, lock_path from pgstage.node where host = $1::text and id <> $2::bigint and not ended;
