-- 0016: forgetting what is over.
-- compatible: 5

-- How long what is over is kept, as the current definitions say: tasks that are done, failed or cancelled, and "errors",
-- the rows of failed runs. A definition without a word of it keeps tasks for good, and errors for 90 days; one that was
-- registered by a program that knew of no settings keeps all.
create function pgstage.retention_rules() returns table (pipeline int, status text, keep_ms bigint)
language sql stable parallel safe
as $$
    select p.id, k.status, (x.retention ->> k.status)::bigint
      from pgstage.pipeline p
      join pgstage.revision r on r.pipeline = p.id and r.number = p.revision and r.settings is not null
      cross join lateral (select coalesce(r.settings -> 'retention', '{"errors": 7776000000}') as retention) x
      cross join unnest(array['done', 'failed', 'cancelled', 'errors']) k(status)
     where x.retention ->> k.status is not null
$$;

-- Whether nothing may still need a task's row: nothing is asked of it, it is not to run again by itself, and what was
-- processed is its newest version.
create function pgstage.may_forget(t pgstage.task) returns boolean language sql stable parallel safe
as $$
    select t.status in ('done', 'failed', 'cancelled') and t.goal = 'present' and t.wish is null
           and (t.status <> 'done' or t.done_version = t.version)
           and not exists (select 1 from pgstage.periodic p where p.task = t.id)
$$;

-- Forgets those of the tasks that have the status, came to it longer ago than that, and may be forgotten; with them go
-- their outputs and the rows of their failed runs. All is looked at again under the row's lock; a row that somebody else
-- has locked is left for another time. Returns how many.
create function pgstage.forget_tasks(ids bigint[], wanted text, older_ms bigint) returns bigint language plpgsql
as $$
declare
    touched bigint;
begin
    with doomed as materialized (
        select d.id
          from unnest(ids) i(id)
          cross join lateral (
              select t.id from pgstage.task t
               where t.id = i.id and t.status = wanted
                 and coalesce(t.end_time, t.parked_at, t.updated) < pgstage.now() - older_ms * interval '1 ms'
                 and pgstage.may_forget(t)
                 for update of t skip locked) d
    ), gone as (
        delete from pgstage.task t using doomed d where t.id = d.id
        returning t.id, t.pipeline, t.stage, t.status
    ), counted as (
        insert into pgstage.task_count_delta (pipeline, stage, status, n)
        select g.pipeline, g.stage, g.status, -count(*) from gone g group by g.pipeline, g.stage, g.status
    )
    select count(*) into touched from gone;
    return touched;
end
$$;

-- Forgets those of the failed runs that belong to the pipeline and are older than that. Returns how many.
create function pgstage.forget_failures(ids bigint[], of_pipeline int, older_ms bigint) returns bigint language plpgsql
as $$
declare
    touched bigint;
begin
    with doomed as materialized (
        select f.id from pgstage.failure f join pgstage.task t on t.id = f.task
         where f.id = any(ids) and t.pipeline = of_pipeline and f.at < pgstage.now() - older_ms * interval '1 ms'
           for update of f skip locked
    ), gone as (
        delete from pgstage.failure f using doomed d where f.id = d.id returning f.id
    )
    select count(*) into touched from gone;
    return touched;
end
$$;

-- Where the walks over the tasks and the failed runs stand, in the order of their ids, and until when they rest after
-- their end. The leader walks; its lock on a row keeps a second one away.
create table pgstage.prune_cursor (
    name       text primary key,
    last_id    bigint not null default 0,
    rest_until timestamptz not null default '-infinity'
) with (fillfactor = 50);
insert into pgstage.prune_cursor (name) values ('task'), ('failure'), ('revision');

-- One step of the walk over the tasks: looks at four times as many rows as it forgets at most. Returns whether there may
-- be more to do now. A walk that is over rests for a tenth of the shortest time that something is kept, between ten
-- seconds and an hour.
create function pgstage.prune_tasks(at_most int) returns boolean language plpgsql
as $$
declare
    place pgstage.prune_cursor;
    shortest_ms bigint;
    seen bigint;
    reached bigint;
    ids bigint[];
    statuses text[];
    keeps bigint[];
    due record;
begin
    select c.* into place from pgstage.prune_cursor c
     where c.name = 'task' and c.rest_until <= pgstage.now() for update skip locked;
    if not found then
        return false;
    end if;
    select min(r.keep_ms) into shortest_ms from pgstage.retention_rules() r where r.status <> 'errors';
    if shortest_ms is null then
        update pgstage.prune_cursor set last_id = 0, rest_until = pgstage.now() + interval '10 s' where name = 'task';
        return false;
    end if;
    with page as materialized (
        select t.id, t.pipeline, t.status, coalesce(t.end_time, t.parked_at, t.updated) as ended
          from pgstage.task t where t.id > place.last_id order by t.id limit at_most * 4
    ), old as materialized (
        select g.id, r.status, r.keep_ms, row_number() over (order by g.id) as number
          from page g join pgstage.retention_rules() r on r.pipeline = g.pipeline and r.status = g.status
         where g.ended < pgstage.now() - r.keep_ms * interval '1 ms'
    )
    select (select count(*) from page),
           coalesce((select o.id from old o where o.number = at_most), (select max(g.id) from page g)),
           array_agg(o.id), array_agg(o.status), array_agg(o.keep_ms)
      into seen, reached, ids, statuses, keeps
      from old o where o.number <= at_most;
    for due in select u.status, u.keep_ms, array_agg(u.id) as ids
                 from unnest(ids, statuses, keeps) u(id, status, keep_ms) group by u.status, u.keep_ms
    loop
        perform pgstage.forget_tasks(due.ids, due.status, due.keep_ms);
    end loop;
    if seen < at_most * 4 and coalesce(cardinality(ids), 0) < at_most then
        update pgstage.prune_cursor
           set last_id = 0,
               rest_until = pgstage.now() + greatest(10000, least(3600000, shortest_ms / 10)) * interval '1 ms'
         where name = 'task';
        return false;
    end if;
    update pgstage.prune_cursor set last_id = reached where name = 'task';
    return true;
end
$$;

-- The same for failed runs. They were written in the order of their ids, more or less: the walk ends at those that are
-- younger than anything is kept.
create function pgstage.prune_failures(at_most int) returns boolean language plpgsql
as $$
declare
    place pgstage.prune_cursor;
    shortest_ms bigint;
    seen bigint;
    reached bigint;
    reached_at timestamptz;
    due record;
begin
    select c.* into place from pgstage.prune_cursor c
     where c.name = 'failure' and c.rest_until <= pgstage.now() for update skip locked;
    if not found then
        return false;
    end if;
    select min(r.keep_ms) into shortest_ms from pgstage.retention_rules() r where r.status = 'errors';
    select count(*), max(f.id), max(f.at) into seen, reached, reached_at
      from (select x.id, x.at from pgstage.failure x
             where x.id > place.last_id and shortest_ms is not null order by x.id limit at_most) f;
    for due in select r.pipeline, r.keep_ms,
                      array(select f.id from pgstage.failure f where f.id > place.last_id and f.id <= reached) as ids
                 from pgstage.retention_rules() r where r.status = 'errors' and seen > 0
    loop
        perform pgstage.forget_failures(due.ids, due.pipeline, due.keep_ms);
    end loop;
    if seen < at_most or reached_at > pgstage.now() - shortest_ms * interval '1 ms' then
        update pgstage.prune_cursor set last_id = 0, rest_until = pgstage.now() + interval '10 min' where name = 'failure';
        return false;
    end if;
    update pgstage.prune_cursor set last_id = reached where name = 'failure';
    return true;
end
$$;

-- Revisions that are neither current nor among the last ten, once no living node says that it runs them: one that has not
-- said what it runs may run any. Nodes judge what they have run by their revision, so it must not go before.
create function pgstage.prune_revisions() returns void language plpgsql
as $$
declare
    old record;
begin
    perform from pgstage.prune_cursor c
      where c.name = 'revision' and c.rest_until <= pgstage.now() for update skip locked;
    if not found then
        return;
    end if;
    update pgstage.prune_cursor set rest_until = pgstage.now() + interval '10 min' where name = 'revision';
    for old in
        select r.pipeline, r.number
          from (select x.*, row_number() over (partition by x.pipeline order by x.number desc) as age
                  from pgstage.revision x) r
          join pgstage.pipeline p on p.id = r.pipeline
         where r.age > 10 and r.number <> p.revision
           and not exists (
               select from pgstage.node n
                where not n.ended
                  and (n.notes is null
                       or exists (select from jsonb_array_elements(n.notes) e
                                   where e ->> 'pipeline' = p.name
                                     and coalesce((e ->> 'revision')::int, r.number) = r.number)))
         limit 100
    loop
        delete from pgstage.revision_stage s where s.pipeline = old.pipeline and s.revision = old.number;
        delete from pgstage.revision r where r.pipeline = old.pipeline and r.number = old.number;
    end loop;
end
$$;

-- One step of all that the leader forgets. Returns whether there may be more to do now.
create function pgstage.prune_step(at_most int) returns boolean language plpgsql
as $$
declare
    more boolean;
begin
    more := pgstage.prune_tasks(at_most);
    more := pgstage.prune_failures(at_most) or more;
    perform pgstage.prune_revisions();
    return more;
end
$$;
