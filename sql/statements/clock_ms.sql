-- The database's clock, as a host counts time.      columns: ms (since 1970)
select (extract(epoch from pgstage.now()) * 1000)::bigint as ms;
