-- Takes or renews the leadership, for two thirds of the lease, and not beyond what the node's heartbeats allow: one that is
-- stopped or half cut off is replaced within the lease, since the others ask every sixth of it. No row: another node leads.
-- $1 bigint: node   $2 bigint: lease in ms      columns: term
insert into pgstage.leader as l (name, node, term, until)
select 'leader', $1::bigint, 1, x.until
  from pgstage.node n
  cross join lateral (select least(pgstage.now() + $2::bigint * 2 / 3 * interval '1 ms',
                                   n.lease_until - $2::bigint / 3 * interval '1 ms') as until) x
 where n.id = $1::bigint and not n.ended and x.until > pgstage.now()
on conflict (name) do update
   set node = excluded.node, until = excluded.until,
       term = case when l.node = excluded.node and l.until > pgstage.now() then l.term else l.term + 1 end
 where l.until <= pgstage.now() or l.node = excluded.node
returning term;
