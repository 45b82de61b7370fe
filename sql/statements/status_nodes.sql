-- Nodes that are alive or not yet forgotten.
-- columns: id, host, pid, started, up_ms, alive, leads, claims, notes (jsonb: one entry a stage that it serves, and for
--          what is wrong: [{"pipeline", "stage", "revision", "text"}]; null: it has not said yet)
select n.id, n.host, n.pid, to_jsonb(n.started) #>> '{}' as started,
       (extract(epoch from pgstage.now() - n.started) * 1000)::bigint as up_ms,
       not n.ended and n.lease_until > pgstage.now() as alive,
       exists (select 1 from pgstage.leader l where l.node = n.id and l.until > pgstage.now()) as leads,
       (select count(*) from pgstage.claim_batch b where b.node = n.id) as claims, n.notes
  from pgstage.node n
 where not n.ended or exists (select 1 from pgstage.claim_batch b where b.node = n.id)
 order by n.started, n.id;
