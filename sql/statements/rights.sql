-- What this session's role may do beside submitting.
-- columns: waits (may see how a task ends), periods (may give tasks a period)
select has_column_privilege('pgstage.task', 'error_text', 'select')
       and has_column_privilege('pgstage.output', 'value', 'select') as waits,
       has_column_privilege('pgstage.task', 'key', 'select') and has_table_privilege('pgstage.periodic', 'select')
       and has_table_privilege('pgstage.periodic', 'insert') and has_table_privilege('pgstage.periodic', 'update')
       and has_table_privilege('pgstage.periodic', 'delete')
       and has_function_privilege('pgstage.set_periods(text, text[], bigint[])', 'execute') as periods;
