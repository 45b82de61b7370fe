-- Forgets the batches of ended nodes that hold nothing any more, then the nodes without batches. offset 0: looked up batch
-- by batch, whatever the planner thinks of a scan.
with emptied as (
    delete from pgstage.claim_batch b
     where not exists (select 1 from pgstage.node n where n.id = b.node and not n.ended)
       and not exists (select 1 from pgstage.task t
                        where t.id = any(b.ids) and t.status = 'running' and t.claim = b.claim offset 0)
)
delete from pgstage.node n
 where n.ended and not exists (select 1 from pgstage.claim_batch b where b.node = n.id);
