-- What earlier runs of claimed tasks said of how far they were. Nothing is looked up while no task at all has progress.
-- $1 bigint[]: claims
-- columns: task, fraction, text (both null: it is of another stage or version, and goes when this one ends well)
select p.task, case when p.counts then p.fraction end as fraction, case when p.counts then p.text end as text
  from pgstage.claim_batch b
  cross join unnest(b.ids) u(task)
  cross join lateral (
      select p.*, p.stage = b.stage and p.version = t.claimed_version as counts
        from pgstage.progress p join pgstage.task t on t.id = p.task
       where p.task = u.task offset 0) p
 where b.claim = any($1::bigint[]) and exists (select 1 from pgstage.progress)
 order by p.task;
