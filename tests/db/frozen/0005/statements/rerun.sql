-- $1 bigint[]: tasks   $2 text: from that stage on, null for the first      columns: touched
select pgstage.rerun_tasks($1::bigint[], $2::text) as touched;
