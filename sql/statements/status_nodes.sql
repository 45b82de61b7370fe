-- Nodes that are alive or not yet forgotten.      columns: id, host, pid, started, alive, leads, claims, notes
select n.id, n.host, n.pid, n.started, not n.ended and n.lease_until > pgstage.now() as alive,
       exists (select 1 from pgstage.leader l where l.node = n.id and l.until > pgstage.now()) as leads,
       (select count(*) from pgstage.claim_batch b where b.node = n.id) as claims, n.notes
  from pgstage.node n order by n.started;
