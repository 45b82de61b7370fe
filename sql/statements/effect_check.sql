-- Behind the SQL of each task in an effect transaction, before its settings are undone: raises when it has ended the
-- transaction, which hold_fences cannot see once effect_begin runs anew. No parameters.
select (case when current_setting('pgstage.effect', true) = 'on' then '1'
             else 'a statement of the stage has ended its transaction' end)::int;
