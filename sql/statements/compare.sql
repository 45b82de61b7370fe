-- What a definition would do to the stages of its pipeline, as it is registered now; changes nothing.
-- $1 text: pipeline   $2 text[]: stage names in order   $3 jsonb: settings
-- columns: stage, fate (kept, new, renamed, removed), old_name (renamed), unfinished (tasks that stand there, not at their
-- end; of a removed stage, and of an earlier one that still holds some)
with known as materialized (
    select s.id, s.name, coalesce(u.n, 0) as unfinished,
           exists (select 1 from pgstage.revision_stage r where r.pipeline = p.id and r.revision = p.revision
                      and r.stage = s.id) as is_current
      from pgstage.pipeline p
      join pgstage.stage s on s.pipeline = p.id
      left join pgstage.unfinished(p.id) u on u.stage = s.id
     where p.name = $1::text
), renamed as materialized (
    select r.* from pgstage.pipeline p cross join lateral pgstage.renames(p.id, $2::text[], $3::jsonb) r
     where p.name = $1::text
)
select n.name as stage, case when r.stage is not null then 'renamed' when k.is_current then 'kept' else 'new' end as fate,
       r.old_name, coalesce(o.unfinished, k.unfinished, 0) as unfinished
  from unnest($2::text[]) with ordinality n(name, position)
  left join renamed r on r.new_name = n.name
  left join known o on o.id = r.stage
  left join known k on k.name = n.name
union all
select k.name, 'removed', null, k.unfinished
  from known k
 where k.name <> all ($2::text[]) and (k.is_current or k.unfinished > 0)
   and not exists (select 1 from renamed r where r.stage = k.id);
