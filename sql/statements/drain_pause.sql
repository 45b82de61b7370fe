-- Pauses the stages before the one that is to be empty.
-- $1 text: pipeline   $2 int: position      columns: stage
with chosen as (
    select s.id, s.name from pgstage.pipeline p
      join pgstage.revision_stage r on r.pipeline = p.id and r.revision = p.revision and r.position < $2::int
      join pgstage.stage s on s.id = r.stage
     where p.name = $1::text
), paused as (
    update pgstage.stage s set paused = true from chosen c where s.id = c.id returning s.name
), told as (
    select pg_notify('pgstage', '')
)
select p.name as stage from paused p left join told on true order by p.name;
