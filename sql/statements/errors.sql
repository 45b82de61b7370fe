-- Tasks that are in error now, by stage and kind of reason, the most frequent first: failed ones, and those that wait for
-- a retry. Reads the partial indexes of parked and of delayed rows, never what is done; and the earlier failed runs of
-- those that had several, for when it was first seen.
-- $1 text: pipeline   $2 int: at most
-- columns: stage, kind, failed, retrying, first_seen, last_seen, key, error_text (of the newest), groups (in all)
with found as materialized (
    select t.id, t.version, t.attempt, t.stage, t.error_text, t.status, t.parked_at as at, t.key
      from pgstage.task t join pgstage.pipeline p on p.id = t.pipeline
     where p.name = $1::text and t.parked_at is not null and t.status = 'failed'
    union all
    select t.id, t.version, t.attempt, t.stage, t.error_text, t.status, t.updated, t.key
      from pgstage.task t join pgstage.pipeline p on p.id = t.pipeline
     where p.name = $1::text and t.due_at is not null and t.error_text is not null
), seen as (
    select f.stage, f.error_text, f.status, f.at, f.key from found f
    union all
    select r.stage, r.error_text, 'before', r.at, null
      from found f join pgstage.failure r on r.task = f.id and r.version = f.version where f.attempt > 1
), texts as (
    -- Texts repeat: their kind is found once each. The newest example is the greatest of what begins with its instant.
    select f.stage, coalesce(f.error_text, '') as error_text, count(*) filter (where f.status = 'failed') as failed,
           count(*) filter (where f.status not in ('failed', 'before')) as retrying, min(f.at) as first_seen,
           max(f.at) filter (where f.key is not null) as last_seen,
           max(array[to_char(f.at at time zone 'UTC', 'YYYYMMDDHH24MISSUS'), f.key])
               filter (where f.key is not null) as newest
      from seen f group by f.stage, coalesce(f.error_text, '')
), kinds as (
    select x.stage, pgstage.error_kind(x.error_text) as kind, sum(x.failed) as failed, sum(x.retrying) as retrying,
           min(x.first_seen) as first_seen, max(x.last_seen) as last_seen, max(x.newest || x.error_text) filter (where x.newest is not null) as newest
      from texts x group by x.stage, pgstage.error_kind(x.error_text)
    having sum(x.failed) + sum(x.retrying) > 0
)
select s.name as stage, k.kind, k.failed, k.retrying, to_jsonb(k.first_seen) #>> '{}' as first_seen,
       to_jsonb(k.last_seen) #>> '{}' as last_seen, k.newest[2] as key, k.newest[3] as error_text,
       count(*) over () as groups
  from kinds k join pgstage.stage s on s.id = k.stage
 order by k.failed + k.retrying desc, k.last_seen desc, s.name, k.kind
 limit $2::int;
