-- $1 text: pipeline   $2 text: key
-- columns: id, task (jsonb: the row with names, without its payload), payload, payload_bytes
select t.id,
       jsonb_build_object('pipeline', p.name) || (to_jsonb(t) - 'pipeline' - 'stage' - 'ready_stage' - 'payload')
       || jsonb_build_object('id', t.id::text, 'stage', s.name, 'claim', t.claim::text, 'node', t.node::text) as task,
       t.payload, octet_length(t.payload::text) as payload_bytes
  from pgstage.task t join pgstage.pipeline p on p.id = t.pipeline join pgstage.stage s on s.id = t.stage
 where p.name = $1::text and t.key = $2::text;
