-- 0012: a stage that is renamed keeps its id, so that no task moves.
-- compatible: 5

-- Tasks that are not at their end, by the stage at which they stand.
create function pgstage.unfinished(pipeline int) returns table (stage int, n bigint) language sql stable parallel safe
as $$
    select c.stage, sum(c.n)::bigint
      from (select stage, status, n from pgstage.task_count where task_count.pipeline = $1
            union all
            select stage, status, n from pgstage.task_count_delta where task_count_delta.pipeline = $1) c
     where c.status in ('ready', 'running', 'delayed', 'waiting', 'failed')
     group by c.stage having sum(c.n) > 0
$$;

-- Stages that get another name by a definition: the stage named by `renamed_from` is there, is none of the definition's, and
-- the current definition has no stage of the new name yet. in_the_way: a stage of an earlier definition that has that name.
create function pgstage.renames(pipeline int, stage_names text[], settings jsonb)
returns table (stage int, old_name text, new_name text, in_the_way int) language sql stable parallel safe
as $$
    select s.id, s.name, w.new_name, n.id
      from (select x.key as new_name, x.value ->> 'renamed_from' as old_name from jsonb_each($3 -> 'stages') x) w
      join pgstage.stage s on s.pipeline = $1 and s.name = w.old_name
      left join pgstage.stage n on n.pipeline = $1 and n.name = w.new_name
     where w.old_name <> all ($2)
       and not exists (select 1 from pgstage.revision_stage r join pgstage.pipeline p on p.id = r.pipeline
                        where p.id = $1 and r.revision = p.revision and r.stage = n.id)
$$;

-- What stands in the way of a definition; null: nothing. Tasks at stages that it leaves out would be stranded.
create function pgstage.strands(pipeline int, stage_names text[], settings jsonb) returns text
language sql stable parallel safe
as $$
    select string_agg(w.why, ', ' order by w.name)
      from (select s.name, format('stage "%s" still holds %s tasks', s.name, u.n) as why
              from pgstage.unfinished($1) u join pgstage.stage s on s.id = u.stage
             where s.name <> all ($2)
               and not exists (select 1 from pgstage.renames($1, $2, $3) r where r.stage = s.id)
            union all
            select r.new_name, format('stage "%s" cannot be called "%s": an earlier stage of that name still holds %s tasks',
                                      r.old_name, r.new_name, u.n)
              from pgstage.renames($1, $2, $3) r join pgstage.unfinished($1) u on u.stage = r.in_the_way) w
$$;

-- Gives the stages their new names. An earlier, empty stage of that name gets another one first.
create function pgstage.rename_stages(pipeline int, stage_names text[], settings jsonb) returns void language sql
as $$
    update pgstage.stage s set name = left(s.name, 50) || '~' || s.id
      from pgstage.renames($1, $2, $3) r where s.id = r.in_the_way;
    update pgstage.stage s set name = r.new_name
      from pgstage.renames($1, $2, $3) r where s.id = r.stage;
$$;
