-- 0021: how far the run of a stage has come is kept, for the next run and for people.
-- compatible: 5

-- What a handler said last, of the stage that its task is at: one row a task that said anything. It counts only for that
-- stage and version. It goes when the stage ends well, and with the task; a row of an older version goes with the next stage
-- that ends well, or when it is said anew.
create table pgstage.progress (
    task     bigint primary key references pgstage.task on delete cascade,
    stage    int not null,
    version  bigint not null,
    fraction double precision not null,
    text     text not null,
    at       timestamptz not null default pgstage.now()
) with (fillfactor = 50);
