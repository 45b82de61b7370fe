-- What a trial of a stage gives it of a task: what a claim would, without claiming it, whatever the task is doing. Stages go
-- by the names of the file that is tried, or else by those they had before.
-- $1 text: pipeline   $2 text[]: the stages of the file, in order   $3 text[]: what each was called before, null for none
-- $4 int: which of them is tried, from 1   $5 text: key   $6 text[]: the stages whose outputs are its inputs, null for none
-- columns: version, updated_at (text), attempt (runs that count at this stage so far), crashes, rescues, payload, input,
--          inputs (jsonb: an object, by name), progress, progress_text (of an earlier run of the stage in this version)
with named as (
    select n.name, n.position, coalesce(s.id, f.id) as id
      from pgstage.pipeline p
     cross join unnest($2::text[], $3::text[]) with ordinality n(name, former, position)
      left join pgstage.stage s on s.pipeline = p.id and s.name = n.name
      left join pgstage.stage f on f.pipeline = p.id and f.name = n.former
     where p.name = $1::text
)
select t.version, to_jsonb(t.task_updated_at) #>> '{}' as updated_at,
       case when t.stage = here.id then t.attempt else 0 end as attempt,
       case when t.stage = here.id then t.crashes else 0 end as crashes,
       case when t.stage = here.id then t.rescues else 0 end as rescues,
       t.payload, o.value as input,
       (select coalesce(jsonb_object_agg(n.name, x.value), '{}')
          from named n left join pgstage.output x on x.task = t.id and x.stage = n.id and x.version = t.version
         where n.name = any ($6::text[])) as inputs,
       g.fraction as progress, g.text as progress_text
  from pgstage.task t
  join pgstage.pipeline p on p.id = t.pipeline
  join named here on here.position = $4::int
  left join named before on before.position = $4::int - 1
  left join pgstage.output o
    on o.task = t.id and o.version = t.version
   and o.stage = coalesce(case when t.way_version = t.version and t.came_to = here.id then t.came_from end, before.id)
  left join pgstage.progress g on g.task = t.id and g.stage = here.id and g.version = t.version
 where p.name = $1::text and t.key = $5::text;
