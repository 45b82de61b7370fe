-- Says that this claimer will look at the stages again before the time is over: nobody need notify it. Skips rows that
-- are locked: another claimer is saying the same, or apply holds them, and nobody waits here for either.
-- $1 int[]: stages   $2 int: ms
with due as materialized (
    select s.id from pgstage.stage s
     where s.id = any($1::int[]) and s.busy_until < pgstage.now() + ($2::int / 2) * interval '1 ms'
     order by s.id
       for update of s skip locked
)
update pgstage.stage s set busy_until = pgstage.now() + $2::int * interval '1 ms' from due where s.id = due.id;
