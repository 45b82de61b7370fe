-- 0020: a file that is registered again from another place is looked for there.
-- compatible: 5

-- Registers a definition. mode: run (only when new, or changed in a way that strands no task), apply (a person said so).
-- outcome: new, changed, unchanged; older (the text is that of an earlier one of the last ten revisions: by `run` it does
-- not become current again, the caller may work under that revision); refused (stages that still hold tasks are missing:
-- see detail). Stages that are renamed keep their ids. The same text can come with other settings, from a newer program or
-- another environment, and from another place. The last ones hold.
create or replace function pgstage.register(pipeline_name text, definition text, stage_names text[], mode text,
                                 path text default null, settings jsonb default null)
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
        update pgstage.revision r set path = register.path
         where r.pipeline = pipeline_id and r.number = current_revision
           and register.path is not null and r.path is distinct from register.path;
        update pgstage.revision r set settings = register.settings
         where r.pipeline = pipeline_id and r.number = current_revision
           and register.settings is not null and r.settings is distinct from register.settings;
        if found then
            perform pgstage.settle(pipeline_id, register.settings);
        end if;
        return query select pipeline_id, current_revision, pgstage.stage_order(pipeline_id, current_revision),
                            'unchanged', null::text;
        return;
    end if;
    if old_revision is not null and mode = 'run' then
        return query select pipeline_id, old_revision, pgstage.stage_order(pipeline_id, old_revision), 'older',
                            format('it equals revision %s, the current one is %s', old_revision, current_revision);
        return;
    end if;

    stranded := pgstage.strands(pipeline_id, stage_names, register.settings);
    if stranded is not null then
        return query select pipeline_id, current_revision, null::int[], 'refused', stranded;
        return;
    end if;

    perform pgstage.rename_stages(pipeline_id, stage_names, register.settings);
    insert into pgstage.stage (pipeline, name)
    select pipeline_id, n.name from unnest(stage_names) with ordinality n(name, position) order by n.position
    on conflict (pipeline, name) do nothing;
    insert into pgstage.revision (pipeline, number, definition, path, settings)
    select pipeline_id, coalesce(max(r.number), 0) + 1, register.definition, register.path, register.settings
      from pgstage.revision r where r.pipeline = pipeline_id
    returning number into old_revision;
    insert into pgstage.revision_stage (pipeline, revision, position, stage)
    select pipeline_id, old_revision, n.position, s.id
      from unnest(stage_names) with ordinality n(name, position)
      join pgstage.stage s on s.pipeline = pipeline_id and s.name = n.name;
    update pgstage.pipeline set revision = old_revision where id = pipeline_id;
    perform pgstage.settle(pipeline_id, coalesce(register.settings, '{}'));
    return query select pipeline_id, old_revision, pgstage.stage_order(pipeline_id, old_revision),
                        case when current_revision = 0 then 'new' else 'changed' end, null::text;
end
$$;
