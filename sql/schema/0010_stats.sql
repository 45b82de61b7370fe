-- 0010: how it goes: times of runs and of waits, each counted once.
-- compatible: 5

-- How long runs took and how long their tasks had been ready before, beside the sums of 0001. Times are in buckets, ten a
-- decade: bucket b holds what lasted 10^(b/10) us and longer, up to the next bucket. An element of the arrays is a bucket
-- and how many it holds: n * 256 + b. null: written by a program that knew of none.
alter table pgstage.stage_stat
    add column waits bigint not null default 0,        -- runs whose wait is known
    add column wait_us bigint not null default 0,
    add column run_buckets bigint[],
    add column wait_buckets bigint[],
    add column hour boolean not null default false;    -- the sum of an hour, not of a minute
create index stage_stat_fine on pgstage.stage_stat (minute) where not hour;

-- Which statistics of a node were counted last. A table of its own: were it a column of node, a transaction that is stuck
-- with its node would hold up those who end that node's lease.
create table pgstage.stat_guard (
    node bigint primary key,
    seq  bigint not null,
    at   timestamptz not null default pgstage.now()
) with (fillfactor = 50);

-- The elements of several such arrays as one array.
create function pgstage.sum_buckets(elements bigint[]) returns bigint[] language sql immutable parallel safe
as $$
    select array_agg(s.n * 256 + s.bucket order by s.bucket)
      from (select e & 255 as bucket, sum(e >> 8)::bigint as n from unnest($1) e group by e & 255) s
$$;

-- The middle of a bucket, in ms.
create function pgstage.bucket_ms(bucket bigint) returns numeric language sql immutable parallel safe
as $$
    select round((10 ^ ((bucket + 0.5) / 10) / 1000)::numeric, 3)
$$;
