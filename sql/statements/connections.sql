-- How many connections this role may have in this database, and how many of the server's are free now.
-- columns: allowed (what is reserved is left out), free
select least(s.server, nullif(r.rolconnlimit, -1), nullif(d.datconnlimit, -1)) as allowed,
       greatest(s.server - (select sum(x.numbackends) from pg_catalog.pg_stat_database x) + 1, 0)::int as free
  from (select current_setting('max_connections')::int
               - case when r.rolsuper then 0
                      else current_setting('superuser_reserved_connections')::int
                           + coalesce(current_setting('reserved_connections', true)::int, 0) end as server
          from pg_catalog.pg_roles r where r.rolname = current_user) s,
       pg_catalog.pg_roles r, pg_catalog.pg_database d
 where r.rolname = current_user and d.datname = current_database();
