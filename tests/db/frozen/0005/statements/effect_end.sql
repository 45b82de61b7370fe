-- Follows the user's SQL in an effect transaction: our own role and time-out again.
-- $1 text: statement time-out
select set_config('role', coalesce(nullif(current_setting('pgstage.role', true), ''), 'none'), true),
       set_config('statement_timeout', $1::text, true);
