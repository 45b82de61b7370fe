-- Keeps what the runs of held tasks said last of how far they are. Sent before complete, which may end the claim.
-- A row that somebody has locked is passed by, as complete does: the tick must not wait for a producer's transaction. The lock
-- is the one that the foreign key takes.
-- $1 bigint[]: tasks   $2 bigint[]: claims   $3 int[]: the stages that run   $4 double precision[]: fractions   $5 text[]: texts
-- columns: task (those whose progress was kept)
with held as materialized (
    select t.id, t.claimed_version, u.stage, u.fraction, u.text
      from unnest($1::bigint[], $2::bigint[], $3::int[], $4::double precision[], $5::text[])
           u(task, claim, stage, fraction, text)
      cross join lateral (
          select t.id, t.claimed_version from pgstage.task t
           where t.id = u.task and t.status = 'running' and t.claim = u.claim for key share of t skip locked) t
)
insert into pgstage.progress as p (task, stage, version, fraction, text)
select h.id, h.stage, h.claimed_version, h.fraction, h.text from held h
    on conflict (task) do update set stage = excluded.stage, version = excluded.version, fraction = excluded.fraction,
                                     text = excluded.text, at = excluded.at
returning p.task;
