-- 0019: what functions say is mended: of a key, arrays and instants that cannot be, and of one task.
-- compatible: 5

-- Submits a set of documents to a pipeline. A document is accepted when it is new, when its stamp is newer than the
-- row's, or, with if_changed, when stamp or payload differ at all. Returns one row a document, in the order given.
-- outcome: new, updated, unchanged. A row that is running is only marked: its exit sends it round again. A key that cannot
-- be is refused before the table's check, whose message has the whole row in it, with the payload.
create or replace function pgstage.submit_set(pipeline text, keys text[], payloads jsonb[], stamps timestamptz[],
                                              priorities int[], run_ats timestamptz[], if_changed boolean)
returns table (ordinal bigint, outcome text, task bigint, version bigint)
language plpgsql
as $$
#variable_conflict use_column
declare
    pipeline_id int;
    first_stage int;
    repeated text;
    instant timestamptz := pgstage.now();
    fresh_tasks bigint[];
    fresh_keys text[];
    changed_tasks bigint[];
    changed_keys text[];
    changed_versions bigint[];
    settled_keys text[] := '{}';
    ready_count bigint := 0;
    unequal text;
begin
    select p.id, r.stage into pipeline_id, first_stage
      from pgstage.pipeline p
      join pgstage.revision_stage r on r.pipeline = p.id and r.revision = p.revision and r.position = 1
     where p.name = submit_set.pipeline;
    if not found then
        raise exception 'there is no pipeline "%"', submit_set.pipeline
            using errcode = 'P0F02', hint = 'Register it: pgstage apply FILE, or pgstage run FILE.';
    end if;
    if exists (select from unnest(keys) u(key) where u.key is null or octet_length(u.key) not between 1 and 1024) then
        raise exception 'a key has 1 to 1024 bytes' using errcode = '22023';
    end if;
    select a.name into unequal
      from (values ('keys', cardinality(keys), array_ndims(keys)), ('payloads', cardinality(payloads), array_ndims(payloads)),
                   ('stamps', cardinality(stamps), array_ndims(stamps)),
                   ('priorities', cardinality(priorities), array_ndims(priorities)),
                   ('run_ats', cardinality(run_ats), array_ndims(run_ats))) a(name, length, dimensions)
     where a.length <> cardinality(keys) or a.dimensions > 1 limit 1;
    if found then
        raise exception 'the array "%" is not of one length with the keys', unequal
            using errcode = '22023', hint = 'Every array has one element a key, or is null.';
    end if;
    if 'infinity' = any(stamps || run_ats) or '-infinity' = any(stamps || run_ats) then
        raise exception 'a document has no infinite time' using errcode = '22023';
    end if;
    select u.key into repeated from unnest(keys) u(key) group by u.key having count(*) > 1 limit 1;
    if found then
        raise exception 'the key "%" is in the set twice', left(repeated, 200) using errcode = 'P0F03';
    end if;

    -- Once, but for a row that goes between the two statements: then the first one adds it after all.
    for pass in 1 .. 100 loop
        with input as (
            select u.key, u.payload, coalesce(u.stamp, instant) as stamp, coalesce(u.priority, 0) as priority, u.run_at,
                   coalesce(u.run_at > instant, false) as later
              from unnest(keys, payloads, stamps, priorities, run_ats) u(key, payload, stamp, priority, run_at)
             where not exists (select 1 from unnest(settled_keys) s(key) where s.key = u.key)
        ), added as (
            insert into pgstage.task (pipeline, key, stage, status, ready_stage, ready_at, due_at, run_at, priority,
                                      task_updated_at, payload)
            select pipeline_id, i.key, first_stage, case when i.later then 'delayed' else 'ready' end,
                   case when not i.later then first_stage end, case when not i.later then instant end,
                   case when i.later then i.run_at end, i.run_at, i.priority, i.stamp, i.payload
              from input i order by i.key
            on conflict (pipeline, key) do nothing
            returning id, key, status
        ), counted as (
            insert into pgstage.task_count_delta (pipeline, stage, status, n)
            select pipeline_id, first_stage, a.status, count(*) from added a group by a.status
        )
        select fresh_tasks || array_agg(a.id), fresh_keys || array_agg(a.key), settled_keys || array_agg(a.key),
               ready_count + count(*) filter (where a.status = 'ready')
          into fresh_tasks, fresh_keys, settled_keys, ready_count from added a;
        exit when cardinality(settled_keys) = cardinality(keys);

        -- The others exist. This statement has a snapshot of its own, so it sees what a concurrent submit has added.
        with input as (
            select u.key, u.payload, coalesce(u.stamp, instant) as stamp, u.priority, u.run_at,
                   coalesce(u.run_at > instant, false) as later
              from unnest(keys, payloads, stamps, priorities, run_ats) u(key, payload, stamp, priority, run_at)
             where not exists (select 1 from unnest(settled_keys) s(key) where s.key = u.key)
        ), locked as materialized (
            -- With what is wanted of it: to join that afterwards would be quadratic in a plan made for any set.
            select t.id, t.key, t.status as old_status, t.stage as old_stage, t.task_updated_at as old_stamp,
                   t.payload as old_payload, i.stamp, i.payload, i.priority, i.run_at, i.later
              from pgstage.task t join input i on i.key = t.key
             where t.pipeline = pipeline_id order by t.key for update of t
        ), wanted as (
            select l.* from locked l
             where l.stamp > l.old_stamp
                or (if_changed and (l.stamp <> l.old_stamp or l.payload is distinct from l.old_payload))
        ), changed as (
            update pgstage.task t
               set version = t.version + 1, task_updated_at = w.stamp, payload = w.payload, goal = 'present',
                   wish = null, priority = coalesce(w.priority, t.priority), run_at = w.run_at, updated = instant,
                   status = case when t.status = 'running' then t.status when w.later then 'delayed' else 'ready' end,
                   stage = case when t.status = 'running' then t.stage else first_stage end,
                   ready_stage = case when t.status <> 'running' and not w.later then first_stage end,
                   ready_at = case when t.status = 'running' then t.ready_at when not w.later then instant end,
                   due_at = case when t.status <> 'running' and w.later then w.run_at end,
                   parked_at = null,
                   attempt = case when t.status = 'running' then t.attempt else 0 end,
                   crashes = case when t.status = 'running' then t.crashes else 0 end,
                   rescues = case when t.status = 'running' then t.rescues else 0 end,
                   error_text = case when t.status = 'running' then t.error_text end
              from wanted w where t.id = w.id
            returning t.id, t.key, t.version, t.status, w.old_status, w.old_stage
        ), counted as (
            insert into pgstage.task_count_delta (pipeline, stage, status, n)
            select pipeline_id, d.stage, d.status, sum(d.n)
              from (select c.old_stage as stage, c.old_status as status, -1 as n from changed c
                     where c.old_status <> 'running'
                    union all
                    select first_stage, c.status, 1 from changed c where c.old_status <> 'running') d
             group by d.stage, d.status having sum(d.n) <> 0
        )
        select changed_tasks || array_agg(c.id), changed_keys || array_agg(c.key),
               changed_versions || array_agg(c.version), settled_keys || (select array_agg(l.key) from locked l),
               ready_count + count(*) filter (where c.status = 'ready')
          into changed_tasks, changed_keys, changed_versions, settled_keys, ready_count from changed c;
        exit when cardinality(settled_keys) = cardinality(keys);
    end loop;
    if cardinality(settled_keys) < cardinality(keys) then
        raise exception 'documents of the set come and go: submit it again' using errcode = '40001';
    end if;

    if ready_count > 0 then
        perform pgstage.wake(array[first_stage]);
    end if;

    return query
        select u.ordinal,
               case when f.key is not null then 'new' when c.key is not null then 'updated' else 'unchanged' end,
               coalesce(f.task, c.task), case when f.key is not null then 1 else c.version end
          from unnest(keys) with ordinality u(key, ordinal)
          left join unnest(fresh_tasks, fresh_keys) f(task, key) on f.key = u.key
          left join unnest(changed_tasks, changed_keys, changed_versions) c(task, key, version) on c.key = u.key
         order by u.ordinal;
end
$$;

-- What stands in the way of a definition; null: nothing. Tasks at stages that it leaves out would be stranded. A rename to a
-- stage that the current definition has is not followed: each of both has tasks, outputs and counts of its own.
create or replace function pgstage.strands(pipeline int, stage_names text[], settings jsonb) returns text
language sql stable parallel safe
as $$
    select string_agg(w.why, ', ' order by w.name)
      from (select s.name,
                   format('stage "%s" still holds %s task%s', s.name, u.n, case when u.n <> 1 then 's' end)
                   || coalesce((select string_agg(format('; renamed_from: %s is not followed, because the definition has a'
                                                         ' stage %s already', s.name, x.key), '')
                                  from jsonb_each($3 -> 'stages') x where x.value ->> 'renamed_from' = s.name), '') as why
              from pgstage.unfinished($1) u join pgstage.stage s on s.id = u.stage
             where s.name <> all ($2)
               and not exists (select 1 from pgstage.renames($1, $2, $3) r where r.stage = s.id)
            union all
            select r.new_name, format('stage "%s" cannot be called "%s": an earlier stage of that name still holds %s task%s',
                                      r.old_name, r.new_name, u.n, case when u.n <> 1 then 's' end)
              from pgstage.renames($1, $2, $3) r join pgstage.unfinished($1) u on u.stage = r.in_the_way) w
$$;
