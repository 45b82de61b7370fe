-- Gives the leadership back, so that another node need not wait for the lease.
-- $1 bigint: node
update pgstage.leader set until = pgstage.now() where node = $1::bigint;
