-- Removes the batches of a node's claims that it does not know (their answers were lost), once no task runs under them.
-- $1 bigint: node   $2 bigint[]: claims that the node knows
delete from pgstage.claim_batch b
 where b.node = $1::bigint and b.claim <> all($2::bigint[])
   and not exists (select 1 from pgstage.task t
                    where t.id = any(b.ids) and t.status = 'running' and t.claim = b.claim offset 0);
