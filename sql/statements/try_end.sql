-- Whether the transaction that effect_begin.sql opened still stands.
-- columns: stands
select coalesce(current_setting('pgstage.effect', true), '') = 'on' as stands;
