-- A node begins: a fresh identity with a lease. Sent again after a lost answer, it changes nothing.
-- $1 bigint: node   $2 text: host   $3 text: lock file   $4 int: pid   $5 bigint: lease in ms
insert into pgstage.node (id, host, lock_path, pid, lease_until)
values ($1::bigint, $2::text, $3::text, $4::int, pgstage.now() + $5::bigint * interval '1 ms')
on conflict (id) do nothing;
