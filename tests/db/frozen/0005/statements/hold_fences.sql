-- Locks and checks the claims of an effect, after the user's SQL; raises P0F01 when one is not held.
-- $1 bigint[]: tasks   $2 bigint[]: claims   $3 int[]: lowest step   $4 int[]: highest step
select pgstage.hold_fences($1::bigint[], $2::bigint[], $3::int[], $4::int[]);
