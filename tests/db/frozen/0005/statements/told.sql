-- What a node must hear about its running tasks: newer versions and wishes, as far as there are any.
-- $1 bigint[]: tasks   $2 bigint[]: claims
-- columns: task, claim, superseded, cancelled
select t.id as task, t.claim, t.version <> t.claimed_version as superseded, t.wish is not null as cancelled
  from unnest($1::bigint[], $2::bigint[]) as u(task, claim)
  cross join lateral (select * from pgstage.task t where t.id = u.task offset 0) t
 where t.status = 'running' and t.claim = u.claim and (t.version <> t.claimed_version or t.wish is not null);
