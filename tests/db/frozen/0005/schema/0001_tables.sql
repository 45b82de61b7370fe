-- 0001: the tables. One row a task; everything that a claim does not need lives beside it.
--
-- States are text with a check, ids are bigint, and every instant comes from pgstage.now(). A column whose change must
-- not touch an index (status, stage, attempt, times, node, claim) is in no index and in no index predicate: ready_stage,
-- due_at and parked_at exist to carry the three partial indexes, and are null while they do not apply.

create schema if not exists pgstage;

-- The only clock of every persisted instant and comparison; test builds replace it by a shifted one.
create function pgstage.now() returns timestamptz language sql stable parallel safe
as $$ select statement_timestamp() $$;

create table pgstage.pipeline (
    id       int generated always as identity primary key,
    name     text collate "C" not null unique
             check (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*$' and octet_length(name) <= 63),
    revision int not null default 0,           -- the current one; 0 while there is none
    paused   boolean not null default false,
    created  timestamptz not null default pgstage.now()
);

create table pgstage.revision (
    pipeline   int not null references pgstage.pipeline,
    number     int not null check (number > 0),
    definition text not null,                  -- the YAML file's bytes
    path       text,                           -- where the file lay: handlers are relative to its folder
    created    timestamptz not null default pgstage.now(),
    primary key (pipeline, number)
);

-- A stage keeps its id as long as the pipeline lives: a stage inserted in YAML moves no task.
create table pgstage.stage (
    id         int generated always as identity primary key,
    pipeline   int not null references pgstage.pipeline,
    name       text collate "C" not null check (octet_length(name) between 1 and 63),
    paused     boolean not null default false,
    busy_until timestamptz not null default '-infinity', -- until then a claimer looks by itself: no NOTIFY is needed
    unique (pipeline, name)
) with (fillfactor = 50);

create table pgstage.revision_stage (
    pipeline int not null,
    revision int not null,
    position int not null check (position > 0),
    stage    int not null references pgstage.stage,
    primary key (pipeline, revision, position),
    unique (pipeline, revision, stage),
    foreign key (pipeline, revision) references pgstage.revision
);

create table pgstage.node (
    id          bigint primary key,            -- random, fresh at each start and after each ended lease
    host        text not null,                 -- which kernel: lock files are comparable on one host only
    lock_path   text not null,                 -- held by the process and its workers for as long as one of them lives
    pid         int not null,
    started     timestamptz not null default pgstage.now(),
    lease_until timestamptz not null,
    ended       boolean not null default false, -- an ended lease never revives
    notes       jsonb                          -- what status should show of it: parked pools and the like
) with (fillfactor = 50);

create table pgstage.leader (
    name  text primary key,
    node  bigint not null,
    term  bigint not null,
    until timestamptz not null
) with (fillfactor = 50);

create table pgstage.task (
    id              bigint generated always as identity primary key,
    version         bigint not null default 1,
    claimed_version bigint,
    done_version    bigint,                    -- the newest version that was processed to the end
    claim           bigint,                    -- kept after the exit, so that a re-sent completion is recognised
    node            bigint,
    task_updated_at timestamptz not null,      -- the stamp
    ready_at        timestamptz,
    due_at          timestamptz,               -- not null exactly while delayed
    parked_at       timestamptz,               -- not null exactly while failed, waiting or cancelled
    run_at          timestamptz,
    begin_time      timestamptz,
    end_time        timestamptz,
    created         timestamptz not null default pgstage.now(),
    updated         timestamptz not null default pgstage.now(),
    pipeline        int not null,
    stage           int not null,
    ready_stage     int,                       -- = stage exactly while ready
    priority        int not null default 0,    -- lower first
    revision        int,
    step            int not null default 0,
    attempt         int not null default 0,
    crashes         int not null default 0,
    rescues         int not null default 0,
    superseded      int not null default 0,    -- runs in a row that a newer version cut short
    status          text not null
                    check (status in ('ready', 'running', 'delayed', 'waiting', 'done', 'failed', 'cancelled')),
    goal            text not null default 'present' check (goal in ('present', 'absent')),
    wish            text check (wish = 'cancel'),
    key             text collate "C" not null check (octet_length(key) between 1 and 1024),
    error_text      text,
    payload         jsonb,
    check ((status = 'ready') = (ready_stage is not null)),
    check ((status = 'delayed') = (due_at is not null)),
    check ((status in ('failed', 'waiting', 'cancelled')) = (parked_at is not null)),
    check (status <> 'running' or (claim is not null and node is not null and claimed_version is not null))
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

create unique index task_key on pgstage.task (pipeline, key);
create index task_ready on pgstage.task (ready_stage, priority, ready_at, id) where ready_stage is not null;
create index task_due on pgstage.task (due_at, id) where due_at is not null;
create index task_parked on pgstage.task (pipeline, parked_at, id) where parked_at is not null;

-- One row a claim statement; removed when its last task has left. Rescue, status and reconnect read it.
create table pgstage.claim_batch (
    claim bigint primary key,
    node  bigint not null,
    stage int not null,
    ids   bigint[] not null,
    begun timestamptz not null default pgstage.now()
);
create index claim_batch_node on pgstage.claim_batch (node);

-- What a stage returned. Handlers see only rows of their version; the commit that makes a task done removes older ones.
create table pgstage.output (
    task    bigint not null references pgstage.task on delete cascade,
    stage   int not null,
    version bigint not null,
    value   jsonb not null,
    made    timestamptz not null default pgstage.now(),
    primary key (task, stage, version)
);

-- One row a failed run.
create table pgstage.failure (
    id       bigint generated always as identity primary key,
    task     bigint not null references pgstage.task on delete cascade,
    stage    int not null,
    version  bigint not null,
    attempt  int not null,
    at       timestamptz not null default pgstage.now(),
    kind     text not null,     -- error, permanent, timeout, crash, lost, statement, output, quarantine
    error_text text not null,
    detail   text               -- the last lines that the handler wrote
);
create index failure_task on pgstage.failure (task, id);

-- Counts of tasks per stage and status: changes are appended in the transaction that makes them, and folded by the
-- leader. status adds both. Nothing ever counts the task table.
create table pgstage.task_count (
    pipeline int not null,
    stage    int not null,
    status   text not null,
    n        bigint not null,
    primary key (pipeline, stage, status)
) with (fillfactor = 50);
create table pgstage.task_count_delta (
    pipeline int not null,
    stage    int not null,
    status   text not null,
    n        bigint not null
);

-- Runs per stage and minute: appended once a tick, folded by the leader.
create table pgstage.stage_stat (
    stage  int not null,
    minute timestamptz not null,
    runs   bigint not null,
    failed bigint not null,
    run_us bigint not null
);
create index stage_stat_minute on pgstage.stage_stat (minute);

create view pgstage.result as
    select p.name as pipeline, t.key, s.name as stage, o.version, o.value, o.made
      from pgstage.output o
      join pgstage.task t on t.id = o.task and t.done_version = o.version
      join pgstage.stage s on s.id = o.stage
      join pgstage.pipeline p on p.id = t.pipeline;
