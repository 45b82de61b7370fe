-- Raises P0F01 unless the completions of an effect were all accepted in full, so that its transaction cannot commit.
-- $1 bigint[]: tasks   $2 bigint[]: claims   $3 int[]: the step that each must have reached
select pgstage.require_steps($1::bigint[], $2::bigint[], $3::int[]);
