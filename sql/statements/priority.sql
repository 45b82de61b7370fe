-- $1 bigint[]: tasks   $2 int: priority      columns: touched
select pgstage.set_priority($1::bigint[], $2::int) as touched;
