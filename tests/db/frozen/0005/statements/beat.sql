-- Renews a lease that has not ended. No row: it has, and the node must take a new identity.
-- $1 bigint: node   $2 bigint: lease in ms      columns: id
update pgstage.node set lease_until = pgstage.now() + $2::bigint * interval '1 ms'
 where id = $1::bigint and not ended and lease_until > pgstage.now() returning id;
