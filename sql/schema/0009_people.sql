-- 0009: what people ask for beyond 0004: urgency, pauses, and what is wrong.
-- compatible: 5

-- Gives tasks that are not at their end another priority (lower goes first). A ready one has its new place at once. Nodes
-- are woken whatever they have said: a woken one claims from the front, so that it meets a task that overtook where it is.
-- Returns how many.
create function pgstage.set_priority(ids bigint[], priority int) returns bigint language plpgsql
as $$
declare
    touched bigint;
begin
    with locked as materialized (
        select t.id from pgstage.task t
         where t.id = any(ids) and t.status not in ('done', 'cancelled') order by t.pipeline, t.key for update of t
    ), changed as (
        update pgstage.task t set priority = set_priority.priority, updated = pgstage.now()
          from locked l where t.id = l.id
        returning t.id
    )
    select count(*) into touched from changed;
    if touched > 0 then
        perform pg_notify('pgstage', '');
    end if;
    return touched;
end
$$;

-- Pauses a stage, or a pipeline as a whole, or lets it go on; with that of a pipeline its stages go on as well. No claim
-- that begins after the commit takes a task there; what runs already goes to its end. Nodes are woken to hear of it.
create function pgstage.set_paused(pipeline_name text, stage_name text, value boolean) returns void language plpgsql
as $$
begin
    if stage_name is null then
        update pgstage.pipeline set paused = value where name = pipeline_name and paused <> value;
    end if;
    if stage_name is not null or not value then
        update pgstage.stage s set paused = value from pgstage.pipeline p
         where p.id = s.pipeline and p.name = pipeline_name and (stage_name is null or s.name = stage_name)
           and s.paused <> value;
    end if;
    perform pg_notify('pgstage', '');
end
$$;

-- The transactions that may be claiming tasks of the pipeline: they hold its advisory lock, and those that begin later see
-- what is committed by now.
create function pgstage.ticks_in_flight(pipeline int) returns text[] language sql stable
as $$
    select coalesce(array_agg(l.virtualtransaction), '{}') from pg_catalog.pg_locks l
     where l.locktype = 'advisory' and l.classid = 1885827947 and l.objid = $1::oid and l.objsubid = 2 and l.granted
       and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())
$$;

-- What an error text has in common with others of its kind, as a pattern for --error: numbers, hex strings and what stands
-- in quotes are "*". One line, 160 characters at most; what is cut off is "*" as well.
create function pgstage.error_kind(error_text text) returns text language sql immutable parallel safe
as $$
    select case when length(k.kind) > 160 then regexp_replace(left(k.kind, 160), '[\\*]*$', '') || '*'
                when $1 ~ '[\n\r]' then regexp_replace(k.kind, '[*]*$', '') || '*'
                else k.kind end
      from (select regexp_replace(
                   regexp_replace(
                   regexp_replace(
                   regexp_replace(
                   regexp_replace(left(regexp_replace($1, '[\n\r].*', ''), 1000),
                       '([\\*?])', '\\\1', 'g'),
                       '(?<![[:alnum:]])''[^'']*''(?![[:alnum:]])', '''*''', 'g'),
                       '"[^"]*"', '"*"', 'g'),
                       '\m(0x[[:xdigit:]]+|[[:xdigit:]]{8}(-[[:xdigit:]]{4}){3}-[[:xdigit:]]{12}|'
                       '(?=[A-Fa-f]*[0-9])[[:xdigit:]]{8,})\M', '*', 'g'),
                       '[0-9]+([.,:*-]+[0-9]+)*', '*', 'g') as kind) k
$$;
