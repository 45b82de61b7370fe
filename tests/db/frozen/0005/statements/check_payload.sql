-- Whether a text is storable as jsonb: fails when it is not. Writes nothing.
-- $1 jsonb: payload      columns: type
select jsonb_typeof($1::jsonb) as type;
