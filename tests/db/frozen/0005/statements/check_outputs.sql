-- Whether texts are storable as jsonb: fails when one is not. Writes nothing.
-- $1 jsonb[]: outputs      columns: count
select cardinality($1::jsonb[]) as count;
