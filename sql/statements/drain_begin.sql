-- What a drain needs to know. A pipeline is drained from its second stage on, unless a stage is named.
-- $1 text: pipeline   $2 text: the first stage to be empty, null for the second
-- columns: position (of that stage), pipeline_paused, ticks (of transactions in flight, text[])
select case when $2::text is null then 2 else f.position end as position, p.paused as pipeline_paused,
       pgstage.ticks_in_flight(p.id) as ticks
  from pgstage.pipeline p
  left join pgstage.stage s on s.pipeline = p.id and s.name = $2::text
  left join pgstage.revision_stage f on f.pipeline = p.id and f.revision = p.revision and f.stage = s.id
 where p.name = $1::text;
