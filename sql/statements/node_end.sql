-- A node has ended: its row says so, and its batches that hold nothing any more go. The row goes with the last of them:
-- see forget_nodes.sql.
-- $1 bigint: node
with gone as (
    delete from pgstage.claim_batch b
     where b.node = $1::bigint
       and not exists (select 1 from pgstage.task t
                        where t.id = any(b.ids) and t.status = 'running' and t.claim = b.claim offset 0)
)
update pgstage.node set ended = true where id = $1::bigint;
