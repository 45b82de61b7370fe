-- 0006: what SQL needs of a definition travels with it, as one JSON document made by the loader (config/settings.c).
-- compatible: 5

alter table pgstage.revision add column settings jsonb;  -- null: registered by a program that knew of none

-- A setting of a pipeline's current revision; null when it has none of that name.
create function pgstage.setting(pipeline int, name text) returns jsonb language sql stable parallel safe
as $$
    select r.settings -> $2 from pgstage.pipeline p
      join pgstage.revision r on r.pipeline = p.id and r.number = p.revision
     where p.id = $1
$$;
