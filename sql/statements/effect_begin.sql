-- Opens an effect transaction, and follows the SQL of each of its tasks when its settings were undone: the user's SQL runs
-- under the stage's time-out and, if it has one, its role. The setting pgstage.effect dies with the transaction, so that
-- effect_check and hold_fences notice SQL that ended it.
-- $1 text: statement time-out   $2 text: time-out of an idle transaction   $3 text: role, null for none
select set_config('pgstage.effect', 'on', true), set_config('pgstage.role', current_setting('role'), true),
       set_config('statement_timeout', $1::text, true), set_config('idle_in_transaction_session_timeout', $2::text, true),
       set_config('client_connection_check_interval', '5s', true),
       case when current_setting('transaction_timeout', true) is not null then set_config('transaction_timeout', '0', true) end,
       case when $3::text is not null then set_config('role', $3::text, true) end;
