-- Fires a schedule once, now. No row: there is none of that name.
-- $1 text: pipeline   $2 text: schedule      columns: tick (ISO 8601), outcome, task (key of what was submitted), error_text
select to_jsonb(tick) #>> '{}' as tick, outcome, task, error_text from pgstage.fire_schedule($1::text, $2::text);
