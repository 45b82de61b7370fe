-- 0008: one document, for producers that have one: in SQL, in a trigger, from any language.
-- compatible: 5

-- Submits one document in the caller's transaction: visible when that commits, gone when it rolls back. What it does with
-- the document is what submit_set does. updated_at: which state of the document it is, null for "now"; only a newer one is
-- taken, unless if_changed says "also one that merely differs". priority: lower first, null leaves what it is. run_at: not
-- before then. outcome: new, updated, unchanged (task and version are null then).
create function pgstage.submit(pipeline text, key text, payload jsonb default null, updated_at timestamptz default null,
                               priority int default null, run_at timestamptz default null,
                               if_changed boolean default false)
returns table (outcome text, task bigint, version bigint)
language plpgsql
as $$
begin
    if key is null then
        raise exception 'a document needs a key' using errcode = '22004';
    end if;
    return query
        select s.outcome, s.task, s.version
          from pgstage.submit_set(pipeline, array[key], array[payload], array[updated_at], array[priority], array[run_at],
                                  coalesce(if_changed, false)) s;
end
$$;
