-- Tasks that are in error now, by stage and kind of reason, the most frequent first: failed ones, and those that wait for
-- a retry. Reads the partial indexes of parked and of delayed rows, never what is done.
-- $1 text: pipeline   $2 int: at most
-- columns: stage, kind, failed, retrying, first_seen, last_seen, key, error_text (of the newest), groups (in all)
with found as materialized (
    select t.stage, t.error_text, t.status, t.parked_at as at, t.key
      from pgstage.task t join pgstage.pipeline p on p.id = t.pipeline
     where p.name = $1::text and t.parked_at is not null and t.status = 'failed'
    union all
    select t.stage, t.error_text, t.status, t.updated, t.key
      from pgstage.task t join pgstage.pipeline p on p.id = t.pipeline
     where p.name = $1::text and t.due_at is not null and t.error_text is not null
), texts as (
    -- Texts repeat: their kind is found once each. The newest example is the greatest of what begins with its instant.
    select f.stage, coalesce(f.error_text, '') as error_text, count(*) filter (where f.status = 'failed') as failed,
           count(*) filter (where f.status <> 'failed') as retrying, min(f.at) as first_seen, max(f.at) as last_seen,
           max(array[to_char(f.at at time zone 'UTC', 'YYYYMMDDHH24MISSUS'), f.key]) as newest
      from found f group by f.stage, coalesce(f.error_text, '')
), kinds as (
    select x.stage, pgstage.error_kind(x.error_text) as kind, sum(x.failed) as failed, sum(x.retrying) as retrying,
           min(x.first_seen) as first_seen, max(x.last_seen) as last_seen, max(x.newest || x.error_text) as newest
      from texts x group by x.stage, pgstage.error_kind(x.error_text)
)
select s.name as stage, k.kind, k.failed, k.retrying, to_jsonb(k.first_seen) #>> '{}' as first_seen,
       to_jsonb(k.last_seen) #>> '{}' as last_seen, k.newest[2] as key, k.newest[3] as error_text,
       count(*) over () as groups
  from kinds k join pgstage.stage s on s.id = k.stage
 order by k.failed + k.retrying desc, k.last_seen desc, s.name, k.kind
 limit $2::int;
