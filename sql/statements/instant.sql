-- An instant of the database's clock, as any session reads it back, whatever its DateStyle and TimeZone.
-- $1 bigint: ms from now      columns: instant
select to_jsonb(pgstage.now() + $1::bigint * interval '1 ms') #>> '{}' as instant;
