-- $1 bigint[]: tasks      columns: touched
select pgstage.cancel_tasks($1::bigint[]) as touched;
