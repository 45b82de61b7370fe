-- Follows the user's SQL in an effect transaction: our own role and time-outs again. Whatever lock time-out the user's role
-- has, the fences behind it wait as long as the statement may.
-- $1 text: statement time-out
select set_config('role', coalesce(nullif(current_setting('pgstage.role', true), ''), 'none'), true),
       set_config('statement_timeout', $1::text, true), set_config('lock_timeout', '0', true);
