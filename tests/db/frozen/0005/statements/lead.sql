-- Takes or renews the leadership. No row: another node leads.
-- $1 bigint: node   $2 bigint: lease in ms      columns: term
insert into pgstage.leader as l (name, node, term, until)
select 'leader', $1::bigint, 1, pgstage.now() + $2::bigint * interval '1 ms'
 where exists (select 1 from pgstage.node n where n.id = $1::bigint and not n.ended)
on conflict (name) do update
   set node = excluded.node, until = excluded.until,
       term = case when l.node = excluded.node and l.until > pgstage.now() then l.term else l.term + 1 end
 where l.until <= pgstage.now() or l.node = excluded.node
returning term;
