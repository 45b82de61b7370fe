-- Keys that stand beside one that does not exist, in the order of the index.
-- $1 text: pipeline   $2 text: key      columns: key
(select t.key from pgstage.task t join pgstage.pipeline p on p.id = t.pipeline
  where p.name = $1::text and t.key > $2::text order by t.key limit 20)
union all
(select t.key from pgstage.task t join pgstage.pipeline p on p.id = t.pipeline
  where p.name = $1::text and t.key < $2::text order by t.key desc limit 20);
