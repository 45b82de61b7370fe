-- 0003: definitions. A pipeline's YAML becomes a revision; stages keep their ids by name.

-- Registers a definition. mode: run (only when new, or changed in a way that strands no task), apply (a person said so).
-- outcome: new, changed, unchanged; older (the text is an earlier revision's: by `run` it never becomes current again,
-- the caller may work under that revision); refused (stages that still hold tasks are missing: see detail).
create function pgstage.register(pipeline_name text, definition text, stage_names text[], mode text,
                                 path text default null)
returns table (pipeline int, revision int, stages int[], outcome text, detail text)
language plpgsql
as $$
#variable_conflict use_column
declare
    pipeline_id int;
    current_revision int;
    old_revision int;
    stranded text;
begin
    insert into pgstage.pipeline (name) values (pipeline_name) on conflict (name) do nothing;
    select p.id into pipeline_id from pgstage.pipeline p where p.name = pipeline_name;
    perform pg_advisory_xact_lock(1885827947, pipeline_id);
    select p.revision into current_revision from pgstage.pipeline p where p.id = pipeline_id;

    select max(r.number) into old_revision from pgstage.revision r
     where r.pipeline = pipeline_id and r.definition = register.definition;
    if old_revision = current_revision then
        return query select pipeline_id, current_revision, pgstage.stage_order(pipeline_id, current_revision),
                            'unchanged', null::text;
        return;
    end if;
    if old_revision is not null and mode = 'run' then
        return query select pipeline_id, old_revision, pgstage.stage_order(pipeline_id, old_revision), 'older',
                            format('it equals revision %s, the current one is %s', old_revision, current_revision);
        return;
    end if;

    select string_agg(format('stage "%s" still holds %s tasks', h.name, h.n), ', ' order by h.name) into stranded
      from (select s.name, sum(c.n) as n
              from pgstage.stage s
              join (select stage, status, n from pgstage.task_count
                    union all select stage, status, n from pgstage.task_count_delta) c on c.stage = s.id
             where s.pipeline = pipeline_id and s.name <> all (stage_names)
               and c.status in ('ready', 'running', 'delayed', 'waiting', 'failed')
             group by s.name having sum(c.n) > 0) h;
    if stranded is not null then
        return query select pipeline_id, current_revision, null::int[], 'refused', stranded;
        return;
    end if;

    insert into pgstage.stage (pipeline, name)
    select pipeline_id, n.name from unnest(stage_names) with ordinality n(name, position) order by n.position
    on conflict (pipeline, name) do nothing;
    insert into pgstage.revision (pipeline, number, definition, path)
    select pipeline_id, coalesce(max(r.number), 0) + 1, register.definition, register.path
      from pgstage.revision r where r.pipeline = pipeline_id
    returning number into old_revision;
    insert into pgstage.revision_stage (pipeline, revision, position, stage)
    select pipeline_id, old_revision, n.position, s.id
      from unnest(stage_names) with ordinality n(name, position)
      join pgstage.stage s on s.pipeline = pipeline_id and s.name = n.name;
    update pgstage.pipeline set revision = old_revision where id = pipeline_id;
    return query select pipeline_id, old_revision, pgstage.stage_order(pipeline_id, old_revision),
                        case when current_revision = 0 then 'new' else 'changed' end, null::text;
end
$$;
