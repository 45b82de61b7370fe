-- An instant of the database's clock.
-- $1 bigint: ms from now      columns: instant
select pgstage.now() + $1::bigint * interval '1 ms' as instant;
