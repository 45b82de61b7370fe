-- Pauses a schedule, or lets it go on.
-- $1 text: pipeline   $2 text: schedule   $3 boolean: pause      columns: found
select pgstage.pause_schedule($1::text, $2::text, $3::boolean) as found;
