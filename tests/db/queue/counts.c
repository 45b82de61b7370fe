#include "counts.h"

const char counts_sql[] =
    "with kept as (select pipeline, stage, status, sum(n) as n from"
    "   (select pipeline, stage, status, n from pgstage.task_count"
    "     union all select pipeline, stage, status, n from pgstage.task_count_delta) c"
    "   group by 1, 2, 3),"
    " real as (select pipeline, stage, status, count(*) as n from pgstage.task group by 1, 2, 3),"
    " wrong as (select format('stage %s %s: kept %s, real %s', stage, status, k.n, r.n) as text"
    "   from kept k full join real r using (pipeline, stage, status)"
    "   where coalesce(k.n, 0) <> coalesce(r.n, 0)"
    "  union all"
    "  select format('task %s runs under claim %s without its batch', t.id, t.claim) from pgstage.task t"
    "   where t.status = 'running' and not exists (select 1 from pgstage.claim_batch b"
    "     where b.claim = t.claim and b.node = t.node and t.id = any(b.ids))"
    "  union all"
    "  select format('task %s is %s and lacks its instant', t.id, t.status) from pgstage.task t"
    "   where t.status = 'ready' and t.ready_at is null)"
    " select coalesce(string_agg(text, '; '), '') from wrong";
