-- $1 bigint[]: tasks      columns: touched
select pgstage.retry_tasks($1::bigint[]) as touched;
