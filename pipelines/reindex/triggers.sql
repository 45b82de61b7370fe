-- Every write to public.documents submits the documents that it changed, in the writer's own transaction: both are there when
-- it commits, and neither when it rolls back. One submit a statement, however many rows it touches. Then what is in the table
-- already is submitted. The pipeline must be registered before: pgstage apply reindex.yaml. Can be run again at any time.
--
-- Kept apart from schema.sql because it is all that a source of another kind would replace. Away with it:
--     drop trigger reindex_insert on public.documents;   (and reindex_update, reindex_delete, reindex_truncate)

begin;

-- With the rights of the one who makes it, who needs pgstage_enqueuer; who writes documents needs nothing of pgstage.
-- clock_timestamp(), because what a submit takes by itself is the time of the statement, and a procedure that writes, commits
-- and writes again is one statement; if_changed, because clocks are set back now and then.
create or replace function reindex.submit() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    keys text[];
    stamps timestamptz[];
begin
    if tg_op = 'INSERT' then
        select array_agg(a.id::text) into keys from after as a;
    elsif tg_op = 'DELETE' then
        select array_agg(b.id::text) into keys from before as b;
    elsif tg_op = 'UPDATE' then -- of what is indexed; an id that changed is a document less and another one more
        select array_agg(coalesce(a.id, b.id)::text) into keys
        from after as a full join before as b on b.id = a.id
        where (a.id, a.title, a.body) is distinct from (b.id, b.title, b.body);
    else -- TRUNCATE
        select array_agg(e.id::text) into keys from reindex.entry as e;
    end if;
    if keys is not null then
        stamps := array_fill(clock_timestamp(), array[cardinality(keys)]);
        perform from pgstage.submit_set('reindex', keys, null, stamps, null, null, true);
    end if;
    return null;
end
$$;

create or replace trigger reindex_insert after insert on public.documents
    referencing new table as after for each statement execute function reindex.submit();
create or replace trigger reindex_update after update on public.documents
    referencing old table as before new table as after for each statement execute function reindex.submit();
create or replace trigger reindex_delete after delete on public.documents
    referencing old table as before for each statement execute function reindex.submit();
create or replace trigger reindex_truncate after truncate on public.documents
    for each statement execute function reindex.submit();

commit;

call reindex.catch_up();
