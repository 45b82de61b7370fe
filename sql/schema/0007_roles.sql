-- 0007: who may do what. pgstage.make_roles() makes four roles and gives them this schema; pgstage.settle_rights(), which
-- `pgstage migrate` calls behind every migration, gives them the tables and functions that came with it.
-- compatible: 5
--
--   pgstage_owner         owns the schema: whoever migrates is a member of it
--   pgstage_orchestrator  runs nodes, and all commands but migrate
--   pgstage_enqueuer      submits; reads no documents, and writes nothing but by pgstage.submit and pgstage.submit_set
--   pgstage_viewer        reads all but the documents themselves: no payloads, no outputs
--
-- None of them can log in: they are granted to the roles that do.

-- Whether a role was given this schema by make_roles: roles are of the whole server, and may be meant for other databases.
create function pgstage.has_role(name text) returns boolean language sql stable
as $$
    select exists (select from pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) a, pg_catalog.pg_roles r
                    where n.nspname = 'pgstage' and r.oid = a.grantee and r.rolname = $1 and a.privilege_type = 'USAGE')
$$;

-- Roles that have all these privileges on the task table without owning it, as a list for GRANT; null when there are none.
create function pgstage.settle_hands(privileges text[]) returns text language sql stable
as $$
    select pg_catalog.string_agg(case when x.grantee = 0 then 'public' else x.grantee::pg_catalog.regrole::text end, ', ')
      from (select a.grantee from pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a
             where c.oid = 'pgstage.task'::pg_catalog.regclass and a.privilege_type = any($1) and a.grantee <> c.relowner
             group by a.grantee having count(distinct a.privilege_type) = pg_catalog.cardinality($1)) x
$$;

-- Who may call what. The submit functions run with their owner's rights, with a fixed search_path; so nobody may call a
-- function merely because it is there. A role that may read and write the task table keeps the functions, and one that may
-- read it those that read: they were given the tables by hand, and what they can do with them is no less.
--
-- SQL functions get no search_path of their own: with one they could not be inlined, and claim and complete depend on
-- that. They are called from sessions and functions whose search_path is fixed.
create function pgstage.settle_functions() returns void language plpgsql
as $$
declare
    item record;
    writers text := pgstage.settle_hands('{SELECT,INSERT,UPDATE}');
    readers text := pgstage.settle_hands('{SELECT}');
begin
    for item in
        select p.oid::regprocedure as name, p.proname in ('submit', 'submit_set') as submits,
               p.proname in ('settle_rights', 'settle_functions', 'settle_tables', 'settle_hands', 'make_roles') as administers,
               p.proname = 'now' as tells_time, p.provolatile <> 'v' and not p.prosecdef as only_reads,
               l.lanname = 'plpgsql'
               and not exists (select from unnest(p.proconfig) c where c like 'search_path=%') as loose
          from pg_proc p join pg_language l on l.oid = p.prolang
         where p.pronamespace = 'pgstage'::regnamespace and p.prokind = 'f' and pg_has_role(p.proowner, 'USAGE')
    loop
        if item.loose then
            execute format('alter function %s set search_path = pg_catalog, pg_temp', item.name);
        end if;
        if item.submits then
            execute format('alter function %s security definer', item.name);
        end if;
        execute format('revoke execute on function %s from public', item.name);
        if writers is not null and not item.administers then
            execute format('grant execute on function %s to %s', item.name, writers);
        end if;
        if readers is not null and item.only_reads and not item.administers then
            execute format('grant execute on function %s to %s', item.name, readers);
        end if;
        if pgstage.has_role('pgstage_orchestrator') and not item.administers then
            execute format('grant execute on function %s to pgstage_orchestrator', item.name);
        end if;
        if pgstage.has_role('pgstage_enqueuer') and (item.submits or item.tells_time) then
            execute format('grant execute on function %s to pgstage_enqueuer', item.name);
        end if;
        if pgstage.has_role('pgstage_viewer') and item.only_reads and not item.administers then
            execute format('grant execute on function %s to pgstage_viewer', item.name);
        end if;
    end loop;
end
$$;

-- Who may read and write what. A viewer sees no column that holds a document: they are named payload and value. A role that
-- was given the task table by hand, to write and to delete, runs nodes: it gets the tables that are new.
create function pgstage.settle_tables() returns void language plpgsql
as $$
declare
    item record;
    runners text := concat_ws(', ', case when pgstage.has_role('pgstage_orchestrator') then 'pgstage_orchestrator' end,
                              pgstage.settle_hands('{SELECT,INSERT,UPDATE,DELETE}'));
begin
    for item in
        select c.oid::regclass as name, c.relname in ('pipeline', 'revision_stage', 'stage', 'schema_migration') as names,
               c.relkind = 'v' or c.relname = 'schema_migration' as read_only,
               case when bool_or(a.attname in ('payload', 'value'))
                    then format('(%s)', string_agg(quote_ident(a.attname), ', ')
                                        filter (where a.attname not in ('payload', 'value')))
                    else '' end as shown
          from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
         where c.relnamespace = 'pgstage'::regnamespace and c.relkind in ('r', 'p', 'v') and pg_has_role(c.relowner, 'USAGE')
         group by c.oid
    loop
        if runners <> '' then
            execute format('grant %s on %s to %s',
                           case when item.read_only then 'select' else 'select, insert, update, delete' end, item.name,
                           runners);
        end if;
        if pgstage.has_role('pgstage_enqueuer') and item.names then
            execute format('grant select on %s to pgstage_enqueuer', item.name);
        end if;
        if pgstage.has_role('pgstage_viewer') then
            execute format('revoke select on %s from pgstage_viewer', item.name);
            execute format('grant select %s on %s to pgstage_viewer', item.shown, item.name);
        end if;
    end loop;
end
$$;

-- Touches only what belongs to the caller, or to a role of which it is a member.
create function pgstage.settle_rights() returns void language plpgsql
as $$
begin
    perform pgstage.settle_functions();
    perform pgstage.settle_tables();
end
$$;

-- Makes the roles that the server does not have, makes pgstage_owner the owner of the schema and of all that is in it, and
-- gives the others their rights. Its caller owns the schema or is a superuser, and may make roles as far as they are
-- missing. It becomes a member of pgstage_owner, and so does who owned the tables before: a node that runs goes on.
create function pgstage.make_roles() returns void language plpgsql
as $$
declare
    item record;
begin
    for item in select r.name from unnest(array['pgstage_owner', 'pgstage_orchestrator', 'pgstage_enqueuer',
                                                'pgstage_viewer']) r(name)
                 where not exists (select from pg_roles x where x.rolname = r.name)
    loop
        begin
            execute format('create role %I nologin', item.name);
        exception when duplicate_object or unique_violation then
            null; -- another database of the server was faster
        end;
    end loop;
    if not pg_has_role('pgstage_owner', 'USAGE') then
        execute format('grant pgstage_owner to %I', current_user);
    end if;

    grant usage, create on schema pgstage to pgstage_owner;
    if has_database_privilege(current_database(), 'create') then
        alter schema pgstage owner to pgstage_owner;
    end if;
    for item in
        select format('grant pgstage_owner to %s', x.owner) as command
          from (select distinct c.relowner::regrole as owner from pg_class c join pg_roles r on r.oid = c.relowner
                 where c.relnamespace = 'pgstage'::regnamespace and not r.rolsuper
                   and not pg_has_role(c.relowner, 'pgstage_owner', 'USAGE')) x
        union all
        select format('alter table %s owner to pgstage_owner', c.oid::regclass)
          from pg_class c
         where c.relnamespace = 'pgstage'::regnamespace and c.relkind in ('r', 'p', 'v')
           and c.relowner <> 'pgstage_owner'::regrole
        union all
        select format('alter function %s owner to pgstage_owner', p.oid::regprocedure)
          from pg_proc p
         where p.pronamespace = 'pgstage'::regnamespace and p.prokind = 'f' and p.proowner <> 'pgstage_owner'::regrole
    loop
        execute item.command;
    end loop;
    grant usage on schema pgstage to pgstage_orchestrator, pgstage_enqueuer, pgstage_viewer;
    perform pgstage.settle_rights();
end
$$;
