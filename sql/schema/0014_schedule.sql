-- 0014: schedules of a pipeline, by cron and by period.
-- compatible: 5

create table pgstage.schedule (
    id           int generated always as identity primary key,
    pipeline     int not null references pgstage.pipeline,
    name         text collate "C" not null,
    spec         text not null,              -- as a person wrote it: "every 10m", "0 3 * * *"
    every_ms     bigint check (every_ms > 0), -- ticks are anchor + n * every_ms; null: cron and zone say when
    cron         jsonb,                      -- {"minutes", "hours", "days", "months", "weekdays", "day_or_weekday"}
    zone         text,
    action       jsonb not null,             -- {"do": "scan"}, {"do": "rerun", "from"}, {"do": "submit", "key", ...}
    overlap      text not null check (overlap in ('skip', 'queue', 'allow')),
    missed       text not null check (missed in ('skip', 'once', 'all')),
    jitter_ms    bigint not null default 0,
    timeout_ms   bigint not null default 0,  -- 0: none
    requires     text[] not null default '{}', -- labels that a node must have to fire it
    paused       boolean not null default false,
    anchor       timestamptz not null,       -- when it was registered with this period: survives deploys
    next_tick    timestamptz,                -- the first that was not judged; null: none will come
    next_at      timestamptz,                -- when that is due: the tick and its jitter
    look_at      timestamptz,                -- when somebody must look: next_at, or earlier for what is pending
    queued_tick  timestamptz,                -- overlap: queue; fires when the former has ended
    last_task    bigint,                     -- what it submitted last
    last_version bigint,
    rerun_after  text collate "C",           -- a rerun is going on, and has got to this key
    scanned      timestamptz,                -- the newest tick that sources are to be scanned for
    unique (pipeline, name),
    check ((every_ms is null) = (cron is not null and zone is not null))
) with (fillfactor = 50);
create index schedule_look on pgstage.schedule (look_at);

-- What became of each tick. The primary key is the fence: no tick is judged twice, by whomever.
create table pgstage.schedule_fire (
    schedule   int not null references pgstage.schedule on delete cascade,
    tick       timestamptz not null,
    judged     timestamptz not null default pgstage.now(),
    outcome    text not null check (outcome in ('fired', 'skipped', 'queued', 'missed', 'failed')),
    task       bigint,
    version    bigint,
    cancel_at  timestamptz,                  -- the task is cancelled if it has not ended by then
    error_text text,
    primary key (schedule, tick)
);
create index schedule_fire_cancel on pgstage.schedule_fire (schedule, cancel_at) where cancel_at is not null;

-- The first tick of a schedule after an instant; null: none.
create function pgstage.schedule_next(s pgstage.schedule, after timestamptz) returns timestamptz language plpgsql stable
as $$
begin
    if s.every_ms is not null then
        return s.anchor + greatest(floor(extract(epoch from after - s.anchor) * 1000 / s.every_ms) + 1, 1)
                          * s.every_ms * interval '1 ms';
    end if;
    return pgstage.cron_next((s.cron ->> 'minutes')::bigint, (s.cron ->> 'hours')::int, (s.cron ->> 'days')::bigint,
                             (s.cron ->> 'months')::int, (s.cron ->> 'weekdays')::int,
                             (s.cron ->> 'day_or_weekday')::boolean, s.zone, after);
end
$$;

-- When a tick is due: it and its jitter, which is the same whoever asks.
create function pgstage.schedule_due(s pgstage.schedule, tick timestamptz) returns timestamptz language sql stable
as $$
    select tick + case when s.jitter_ms > 0
        then (hashtextextended(s.name || extract(epoch from tick), 0) & 9223372036854775807) % s.jitter_ms else 0 end
        * interval '1 ms'
$$;

-- The ticks that are due at an instant, oldest first; of more than at_most the newest. Cron is asked from a day before
-- the instant on, and from farther back while that gives too few: a month away is not counted minute by minute.
create function pgstage.schedule_ticks(s pgstage.schedule, instant timestamptz, at_most int) returns timestamptz[]
language plpgsql stable
as $$
declare
    reach interval := coalesce((at_most + 1) * s.every_ms * interval '1 ms', interval '1 day');
    since timestamptz;
    tick timestamptz;
    ticks timestamptz[];
begin
    loop
        ticks := '{}';
        since := greatest(s.next_tick, instant - reach);
        tick := pgstage.schedule_next(s, since - interval '1 microsecond');
        while pgstage.schedule_due(s, tick) <= instant loop
            ticks := ticks || tick;
            tick := pgstage.schedule_next(s, tick);
        end loop;
        exit when cardinality(ticks) >= at_most or since = s.next_tick;
        reach := reach * 4;
    end loop;
    return ticks[greatest(cardinality(ticks) - at_most, 0) + 1 :];
end
$$;

-- Whether what the schedule began last is still going on.
create function pgstage.schedule_is_busy(s pgstage.schedule) returns boolean language plpgsql stable
as $$
begin
    return s.rerun_after is not null
        or exists (select 1 from pgstage.task t
                    where t.id = s.last_task and t.status not in ('done', 'failed', 'cancelled')
                      and coalesce(t.done_version, 0) < s.last_version);
end
$$;

-- Writes when somebody must look next.
create function pgstage.schedule_rest(schedule int) returns void language plpgsql
as $$
begin
    update pgstage.schedule s
       set look_at = least(case when not s.paused then s.next_at end,
                           case when s.rerun_after is not null then pgstage.now() end,
                           case when s.queued_tick is not null then pgstage.now() + interval '1 second' end,
                           (select min(f.cancel_at) from pgstage.schedule_fire f
                             where f.schedule = s.id and f.cancel_at is not null))
     where s.id = $1;
end
$$;

-- Does what a schedule is for. {tick} in the key and in the payload is the tick's instant, in UTC.
create function pgstage.schedule_act(s pgstage.schedule, tick timestamptz, out task bigint, out version bigint)
language plpgsql
as $$
#variable_conflict use_column
declare
    instant text := regexp_replace(to_char(tick at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '\.0+Z', 'Z');
    task_key text := replace(s.action ->> 'key', '{tick}', instant);
    pipeline_name text := (select p.name from pgstage.pipeline p where p.id = s.pipeline);
begin
    if s.action ->> 'do' = 'scan' then
        update pgstage.schedule c set scanned = schedule_act.tick where c.id = s.id;
    elsif s.action ->> 'do' = 'rerun' then
        update pgstage.schedule c set rerun_after = '' where c.id = s.id;
    else
        perform pgstage.submit_set(pipeline_name, array[task_key],
                                   array[replace((s.action -> 'payload')::text, '{tick}', instant)::jsonb],
                                   array[null::timestamptz], array[(s.action ->> 'priority')::int], array[null::timestamptz], true);
        select t.id, t.version into task, version
          from pgstage.task t where t.pipeline = s.pipeline and t.key = task_key;
        update pgstage.schedule c set last_task = schedule_act.task, last_version = schedule_act.version where c.id = s.id;
    end if;
end
$$;

-- Fires a tick whose row is there. What fails is written down, and the schedule goes on; a deadlock, a time-out or a server
-- that goes down is nobody's fault: the tick is tried again.
create function pgstage.schedule_fire_tick(s pgstage.schedule, tick timestamptz) returns void language plpgsql
as $$
#variable_conflict use_column
declare
    done record;
begin
    done := pgstage.schedule_act(s, tick);
    update pgstage.schedule_fire f
       set outcome = 'fired', task = done.task, version = done.version,
           cancel_at = case when s.timeout_ms > 0 and done.task is not null
                            then pgstage.now() + s.timeout_ms * interval '1 ms' end
     where f.schedule = s.id and f.tick = schedule_fire_tick.tick;
exception when others then
    if left(sqlstate, 2) in ('40', '53', '55', '57', '58', 'XX') then
        raise;
    end if;
    update pgstage.schedule_fire f set outcome = 'failed', error_text = sqlerrm
     where f.schedule = s.id and f.tick = schedule_fire_tick.tick;
end
$$;

-- Judges one tick. The schedule's row is locked.
create function pgstage.schedule_judge(schedule int, tick timestamptz, is_missed boolean) returns void language plpgsql
as $$
#variable_conflict use_column
declare
    s pgstage.schedule;
    verdict text;
begin
    select * into s from pgstage.schedule c where c.id = schedule_judge.schedule;
    verdict := case when is_missed then 'missed'
                    when s.overlap = 'allow' or not pgstage.schedule_is_busy(s) then 'fired'
                    when s.overlap = 'queue' and s.queued_tick is null then 'queued'
                    else 'skipped' end;
    insert into pgstage.schedule_fire (schedule, tick, outcome) values (s.id, schedule_judge.tick, verdict)
    on conflict do nothing;
    if not found then
        return;
    elsif verdict = 'fired' then
        perform pgstage.schedule_fire_tick(s, tick);
    elsif verdict = 'queued' then
        update pgstage.schedule c set queued_tick = schedule_judge.tick where c.id = s.id;
    end if;
end
$$;

-- Judges the ticks that are due. A tick counts as missed when it is more than a minute late, or a later one is due as
-- well. The next one is counted from the last one, not from now.
create function pgstage.schedule_judge_due(s pgstage.schedule, instant timestamptz) returns void language plpgsql
as $$
declare
    ticks timestamptz[] := pgstage.schedule_ticks(s, instant, 1000);
    newest timestamptz := ticks[cardinality(ticks)];
    following timestamptz;
begin
    if ticks[1] > s.next_tick then
        insert into pgstage.schedule_fire (schedule, tick, outcome, error_text)
        values (s.id, s.next_tick, 'missed', format('as all others before %s', to_jsonb(ticks[1]) #>> '{}'))
        on conflict do nothing;
    end if;
    for i in 1 .. cardinality(ticks) loop
        perform pgstage.schedule_judge(s.id, ticks[i],
            case s.missed when 'all' then false
                          when 'once' then ticks[i] < newest
                          else ticks[i] < newest or pgstage.schedule_due(s, newest) < instant - interval '1 minute' end);
    end loop;
    following := pgstage.schedule_next(s, coalesce(newest, instant)); -- none: the rules of the zone have changed
    update pgstage.schedule c set next_tick = following, next_at = pgstage.schedule_due(s, following) where c.id = s.id;
    if cardinality(ticks) > 50 or random() < 0.02 then -- some thousand are kept: to look for more each time costs more
        delete from pgstage.schedule_fire f
         where f.schedule = s.id and f.cancel_at is null and f.outcome <> 'queued'
           and f.tick < (select k.tick from pgstage.schedule_fire k where k.schedule = s.id
                          order by k.tick desc offset 1000 limit 1);
    end if;
end
$$;

-- A rerun goes on: the next 1000 tasks by key, of which the done ones run again.
create function pgstage.schedule_rerun(s pgstage.schedule) returns void language plpgsql
as $$
declare
    ids bigint[];
    last text;
    seen int;
begin
    select array_agg(t.id) filter (where t.status = 'done'), max(t.key), count(*) into ids, last, seen
      from (select t.id, t.key, t.status from pgstage.task t
             where t.pipeline = s.pipeline and t.key > s.rerun_after order by t.key limit 1000) t;
    perform pgstage.rerun_tasks(ids, s.action ->> 'from');
    update pgstage.schedule c set rerun_after = case when seen = 1000 then last end where c.id = s.id;
end
$$;

-- Cancels what has not ended in the time that its schedule gives it; a version that somebody else made has all its time.
create function pgstage.schedule_cancel(s pgstage.schedule, instant timestamptz) returns void language plpgsql
as $$
declare
    overdue record;
begin
    for overdue in
        update pgstage.schedule_fire f set cancel_at = null
         where f.schedule = s.id and f.cancel_at <= instant returning f.tick, f.task, f.version
    loop
        perform 1 from pgstage.task t
          where t.id = overdue.task and t.version = overdue.version and t.status not in ('done', 'failed', 'cancelled')
            for update;
        if found then
            perform pgstage.cancel_tasks(array[overdue.task]);
            update pgstage.task t
               set error_text = format('cancelled by schedule "%s": not done %s after it began', s.name,
                                       s.timeout_ms * interval '1 ms')
             where t.id = overdue.task;
        end if;
    end loop;
end
$$;

-- Looks at the schedules of some pipelines that are due. Any node may, at any time: a schedule that another one looks at
-- is passed by, and each tick is judged once. labels: those of the node. Returns how many were looked at, and in how many ms the next
-- is due (null: none).
create function pgstage.fire_schedules(pipelines int[], at_most int, labels text[] default '{}', out looked int,
                                       out wait_ms bigint) language plpgsql
as $$
declare
    instant timestamptz := pgstage.now();
    s pgstage.schedule;
begin
    looked := 0;
    for s in
        select * from pgstage.schedule c
         where c.look_at <= instant and c.pipeline = any(pipelines) and c.requires <@ labels
         order by c.look_at, c.id limit at_most
           for update skip locked
    loop
        perform pgstage.schedule_cancel(s, instant);
        if s.rerun_after is not null then
            perform pgstage.schedule_rerun(s);
        end if;
        if s.queued_tick is not null and not pgstage.schedule_is_busy(s) then
            update pgstage.schedule c set queued_tick = null where c.id = s.id;
            perform pgstage.schedule_fire_tick(s, s.queued_tick);
        end if;
        if not s.paused and s.next_at <= instant then
            perform pgstage.schedule_judge_due(s, instant);
        end if;
        perform pgstage.schedule_rest(s.id);
        looked := looked + 1;
    end loop;
    select ceil(extract(epoch from min(greatest(c.look_at, instant)) - instant) * 1000) into wait_ms
      from pgstage.schedule c where c.look_at is not null and c.pipeline = any(pipelines) and c.requires <@ labels;
end
$$;

-- Makes the schedules of a definition hold (config/settings.c says what they look like; null: none). One whose times are
-- unchanged keeps its grid, its next tick and what is pending; a pause stays; one that is gone goes, with its history.
create function pgstage.set_schedules(pipeline int, schedules jsonb) returns void language plpgsql
as $$
declare
    instant timestamptz := date_trunc('second', pgstage.now());
    wanted jsonb;
    unknown text;
    s pgstage.schedule;
begin
    select w ->> 'zone' into unknown from jsonb_array_elements(schedules) w
     where w ->> 'zone' <> 'UTC' and not exists (select 1 from pg_timezone_names z where lower(z.name) = lower(w ->> 'zone'));
    if found then
        raise exception 'the database knows no time zone "%"', unknown
            using errcode = 'P0F04', hint = 'Its names: select name from pg_timezone_names.';
    end if;
    delete from pgstage.schedule c
     where c.pipeline = set_schedules.pipeline
       and not exists (select 1 from jsonb_array_elements(schedules) w where w ->> 'name' = c.name);
    for wanted in select w from jsonb_array_elements(schedules) w order by w ->> 'name' loop
        insert into pgstage.schedule as c (pipeline, name, spec, every_ms, cron, zone, action, overlap, missed, jitter_ms,
                                           timeout_ms, requires, anchor)
        values (set_schedules.pipeline, wanted ->> 'name', wanted ->> 'spec', (wanted ->> 'every_ms')::bigint,
                wanted -> 'cron', wanted ->> 'zone', wanted -> 'action', wanted ->> 'overlap', wanted ->> 'missed',
                coalesce((wanted ->> 'jitter_ms')::bigint, 0), coalesce((wanted ->> 'timeout_ms')::bigint, 0),
                array(select jsonb_array_elements_text(wanted -> 'requires')), instant)
        on conflict on constraint schedule_pipeline_name_key do update
           set spec = excluded.spec, every_ms = excluded.every_ms, cron = excluded.cron, zone = excluded.zone,
               action = excluded.action, overlap = excluded.overlap, missed = excluded.missed,
               jitter_ms = excluded.jitter_ms, timeout_ms = excluded.timeout_ms,
               requires = excluded.requires,
               anchor = case when c.every_ms is not distinct from excluded.every_ms then c.anchor else excluded.anchor end,
               next_tick = case when (c.every_ms, c.cron, c.zone)
                                     is not distinct from (excluded.every_ms, excluded.cron, excluded.zone)
                                then c.next_tick end
        returning * into s;
        s.next_tick := coalesce(s.next_tick, pgstage.schedule_next(s, instant));
        update pgstage.schedule c
           set next_tick = s.next_tick, next_at = pgstage.schedule_due(s, s.next_tick)
         where c.id = s.id;
        perform pgstage.schedule_rest(s.id);
    end loop;
end
$$;

-- Pauses a schedule, or lets it go on: ticks that pass meanwhile are not made up for. False: there is none of that name.
create function pgstage.pause_schedule(pipeline_name text, schedule_name text, pause boolean) returns boolean
language plpgsql
as $$
declare
    s pgstage.schedule;
begin
    select c.* into s from pgstage.schedule c join pgstage.pipeline p on p.id = c.pipeline
     where p.name = pipeline_name and c.name = schedule_name for update of c;
    if not found then
        return false;
    end if;
    if s.paused and not pause then
        s.next_tick := pgstage.schedule_next(s, pgstage.now());
    end if;
    update pgstage.schedule c
       set paused = pause, next_tick = s.next_tick, next_at = pgstage.schedule_due(s, s.next_tick) where c.id = s.id;
    perform pgstage.schedule_rest(s.id);
    return true;
end
$$;

-- Fires a schedule once, now, whatever its times, its pause and its overlap say. Returns what became of it, with the key of
-- what was submitted; no row: there is no schedule of that name.
create function pgstage.fire_schedule(pipeline_name text, schedule_name text)
returns table (tick timestamptz, outcome text, task text, error_text text) language plpgsql
as $$
#variable_conflict use_column
declare
    s pgstage.schedule;
    instant timestamptz := pgstage.now();
begin
    select c.* into s from pgstage.schedule c join pgstage.pipeline p on p.id = c.pipeline
     where p.name = pipeline_name and c.name = schedule_name for update of c;
    if found then
        insert into pgstage.schedule_fire (schedule, tick, outcome) values (s.id, instant, 'fired');
        perform pgstage.schedule_fire_tick(s, instant);
        perform pgstage.schedule_rest(s.id);
        return query select f.tick, f.outcome, t.key, f.error_text
                       from pgstage.schedule_fire f left join pgstage.task t on t.id = f.task
                      where f.schedule = s.id and f.tick = instant;
    end if;
end
$$;
