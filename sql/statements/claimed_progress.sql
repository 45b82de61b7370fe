-- What earlier runs of claimed tasks said of how far they were. Nothing is looked up while no task at all has progress. The
-- sub-select hides from the planner how many claims there are: knowing it, it would plan anew each time, which costs more than
-- the statement.
-- $1 bigint[]: claims
-- columns: task, fraction, text (both null: it is of another stage or version, and goes when this one ends well)
select p.task, case when p.counts then p.fraction end as fraction, case when p.counts then p.text end as text
  from unnest((select $1::bigint[])) c(claim)
  join pgstage.claim_batch b on b.claim = c.claim
  cross join unnest(b.ids) u(task)
  cross join lateral (
      select p.*, p.stage = b.stage and p.version = t.claimed_version as counts
        from pgstage.progress p join pgstage.task t on t.id = p.task
       where p.task = u.task offset 0) p
 where exists (select 1 from pgstage.progress)
 order by p.task;
