-- $1 text: pipeline   $2 text: key
-- columns: id, task (jsonb: the row with names and its own period, without its payload), payload, payload_bytes
select t.id,
       jsonb_build_object('pipeline', p.name) || (to_jsonb(t) - 'pipeline' - 'stage' - 'ready_stage' - 'payload')
       || jsonb_build_object('id', t.id::text, 'stage', s.name, 'claim', t.claim::text, 'node', t.node::text,
                             'every_ms', d.every_ms, 'again_at', d.due_at) as task,
       t.payload, octet_length(t.payload::text) as payload_bytes
  from pgstage.task t join pgstage.pipeline p on p.id = t.pipeline join pgstage.stage s on s.id = t.stage
  left join pgstage.periodic d on d.task = t.id
 where p.name = $1::text and t.key = $2::text;
