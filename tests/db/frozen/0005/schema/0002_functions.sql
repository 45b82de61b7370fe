-- 0002: the rules that more than one statement shares.

-- The one exit rule: where a row goes that leaves running. First a wish that was marked meanwhile (an accepted submit
-- takes an older wish away), then a newer version (delayed when it is for later), then what the exit itself wants.
-- Inlined by the planner. Its callers give it what they read under the row's lock.
create function pgstage.leave(wish text, newer boolean, run_at timestamptz, want text, want_stage int, first_stage int)
returns table (status text, stage int) language sql stable parallel safe
as $$
    select case when wish = 'cancel' then 'cancelled' when newer and run_at > pgstage.now() then 'delayed'
                when newer then 'ready' else want end,
           case when wish = 'cancel' or not newer then want_stage else first_stage end
$$;

-- The stages of a pipeline's revision in order.
create function pgstage.stage_order(pipeline int, revision int) returns int[] language sql stable parallel safe
as $$
    select array_agg(r.stage order by r.position)
      from pgstage.revision_stage r where r.pipeline = $1 and r.revision = $2
$$;

-- How many leading elements of two arrays agree.
create function pgstage.common_prefix(a int[], b int[]) returns int language sql immutable parallel safe
as $$
    select coalesce(min(i) - 1, least(cardinality(a), cardinality(b)))::int
      from generate_series(1, least(cardinality(a), cardinality(b))) i
     where a[i] is distinct from b[i]
$$;

-- Wakes sleeping nodes, unless a claimer has said that it will look by itself before long. At most one NOTIFY a call;
-- the payload is a constant, so that no name can make it too long.
create function pgstage.wake(stages int[]) returns void language plpgsql
as $$
begin
    if exists (select 1 from pgstage.stage s where s.id = any(stages) and s.busy_until < pgstage.now()) then
        perform pg_notify('pgstage', '');
    end if;
end
$$;

-- Submits a set of documents to a pipeline. A document is accepted when it is new, when its stamp is newer than the
-- row's, or, with if_changed, when stamp or payload differ at all. Returns one row a document, in the order given.
-- outcome: new, updated, unchanged. A row that is running is only marked: its exit sends it round again.
create function pgstage.submit_set(pipeline text, keys text[], payloads jsonb[], stamps timestamptz[],
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
begin
    select p.id, r.stage into pipeline_id, first_stage
      from pgstage.pipeline p
      join pgstage.revision_stage r on r.pipeline = p.id and r.revision = p.revision and r.position = 1
     where p.name = submit_set.pipeline;
    if not found then
        raise exception 'there is no pipeline "%"', submit_set.pipeline
            using errcode = 'P0F02', hint = 'Register it: pgstage apply FILE, or pgstage run FILE.';
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

-- Raises unless every (task, claim, step) is held, and locks the rows: an effect transaction calls it after the user's
-- SQL, so that a slow statement holds up no submit of its document. The locks are taken in the order in which submits take
-- them, by key, because both wait for each other. Raises as well when the SQL has ended the transaction it ran in.
create function pgstage.hold_fences(tasks bigint[], claims bigint[], first_steps int[], last_steps int[])
returns void language plpgsql
as $$
declare
    held bigint;
begin
    if current_setting('pgstage.effect', true) is distinct from 'on' then
        raise exception 'a statement of the stage has ended its transaction' using errcode = '2D000';
    end if;
    select count(*) into held from (
        select t.id from pgstage.task t
          join unnest(tasks, claims, first_steps, last_steps) u(task, claim, first_step, last_step) on u.task = t.id
         where t.status = 'running' and t.claim = u.claim and t.step between u.first_step and u.last_step
         order by t.pipeline, t.key for update of t) h;
    if held <> cardinality(tasks) then
        raise exception 'a claim was lost while its statements ran' using errcode = 'P0F01';
    end if;
end
$$;

-- Raises unless every task has reached its step under its claim: the completions of an effect are accepted whole, or its
-- transaction does not commit.
create function pgstage.require_steps(tasks bigint[], claims bigint[], steps int[]) returns void language plpgsql
as $$
declare
    reached bigint;
begin
    select count(*) into reached
      from pgstage.task t join unnest(tasks, claims, steps) u(task, claim, step) on u.task = t.id
     where t.claim = u.claim and t.step = u.step;
    if reached <> cardinality(tasks) then
        raise exception 'the stages of a pipeline changed while its statements ran' using errcode = 'P0F01';
    end if;
end
$$;
