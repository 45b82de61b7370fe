-- Looks at the schedules of some pipelines that are due, and fires them; see pgstage.fire_schedules.
-- $1 int[]: pipelines   $2 int: at most   $3 text[]: labels of the node
-- columns: looked, wait_ms (until the next is due; null: none is)
select looked, wait_ms from pgstage.fire_schedules($1::int[], $2::int, $3::text[]);
