-- Removes the batches of claims whose last task has left; one that still has a running task stays.
-- $1 bigint: node   $2 bigint[]: claims
delete from pgstage.claim_batch b
 where b.node = $1::bigint and b.claim = any($2::bigint[])
   and not exists (select 1 from pgstage.task t
                    where t.id = any(b.ids) and t.status = 'running' and t.claim = b.claim offset 0);
