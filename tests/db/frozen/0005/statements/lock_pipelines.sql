-- Opens a tick or an effect transaction: apply takes the same lock alone, so that no order of stages changes under it.
-- $1 int[]: pipelines
select pg_advisory_xact_lock_shared(1885827947, p) from (select distinct unnest($1::int[]) as p order by 1) pipelines;
