-- Ends the leases that have run out; an ended lease never revives, so a late heartbeat is refused.
-- columns: id
update pgstage.node set ended = true where not ended and lease_until <= pgstage.now() returning id;
