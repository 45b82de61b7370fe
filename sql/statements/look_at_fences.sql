-- Which chains still hold their claims, without a lock: an effect drops the others before it runs their SQL.
--
-- One row a chain. state: held, applied (an earlier sending of it has committed) or lost. A chain that was run under an
-- older definition is held only when the current one agrees with all of it: otherwise complete would not accept it whole.
-- $1 bigint[]: tasks   $2 bigint[]: claims   $3 int[]: first step   $4 int[]: count of transitions
-- $5 int[]: stage of the first transition   $6 int[]: revision   $7 text[]: ending (stay, next, keep, ...)
-- columns: task, state, step, stage, status
select u.task,
       case when t.claim is distinct from u.claim then 'lost'
            when t.step = u.first_step + u.count
                 and (u.ending = 'keep' or (t.status = 'running') = (u.ending = 'stay')) then 'applied'
            when t.status = 'running' and t.step between u.first_step and u.first_step + u.count - 1 and d.agrees
                 then 'held'
            else 'lost' end as state,
       t.step, t.stage, t.status
  from unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::int[], $6::int[], $7::text[])
       u(task, claim, first_step, count, first_stage, revision, ending)
  left join lateral (select * from pgstage.task t where t.id = u.task offset 0) t on true
  left join lateral (
      select case when u.revision = p.revision
                  then exists (select 1 from pgstage.revision_stage r
                                where r.pipeline = p.id and r.revision = p.revision and r.stage = t.stage)
                  else (select pgstage.common_prefix(o.stages[o.place : o.place + o.pending - 1],
                                                     o.run[o.run_place : o.run_place + o.pending - 1]) = o.pending
                          from (select s.*, array_position(s.stages, t.stage) as place,
                                       array_position(s.run, u.first_stage) + t.step - u.first_step as run_place,
                                       u.first_step + u.count - t.step as pending
                                  from (select pgstage.stage_order(p.id, p.revision) as stages,
                                               pgstage.stage_order(p.id, u.revision) as run) s) o) end as agrees
        from pgstage.pipeline p where p.id = t.pipeline) d on true
 order by u.task;
