-- 0018: a schedule or a period that cannot go on holds up nobody else, and what is to run anyway is not sent back.
-- compatible: 5

-- A rerun goes on: the next 1000 tasks by key, of which the done ones run again. What somebody has locked is being worked
-- upon: it is not looked at again.
create or replace function pgstage.schedule_rerun(s pgstage.schedule) returns void language plpgsql
as $$
declare
    ids bigint[];
    last text;
    seen int;
begin
    select array_agg(t.id), max(t.key), count(*) into ids, last, seen
      from (select t.id, t.key from pgstage.task t
             where t.pipeline = s.pipeline and t.key > s.rerun_after order by t.key limit 1000) t;
    select array_agg(t.id) into ids
      from (select t.id from pgstage.task t where t.id = any(ids) and t.status = 'done' for update skip locked) t;
    perform pgstage.rerun_tasks(ids, s.action ->> 'from');
    update pgstage.schedule c set rerun_after = case when seen = 1000 then last end where c.id = s.id;
end
$$;

-- Judges the ticks that are due. A tick counts as missed when it is more than a minute late, or a later one is due as
-- well. The next one is counted from the last one, not from now. Of those that all are made up for, twenty a look: what
-- other schedules, and the leader, wait for stays short.
create or replace function pgstage.schedule_judge_due(s pgstage.schedule, instant timestamptz) returns void language plpgsql
as $$
declare
    due timestamptz[] := pgstage.schedule_ticks(s, instant, 1000);
    ticks timestamptz[] := case when s.missed = 'all' then due[1:20] else due end;
    newest timestamptz := due[cardinality(due)];
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
    -- None: the rules of the zone have changed.
    following := pgstage.schedule_next(s, coalesce(ticks[cardinality(ticks)], instant));
    update pgstage.schedule c set next_tick = following, next_at = pgstage.schedule_due(s, following) where c.id = s.id;
    if cardinality(due) > 50 or random() < 0.02 then -- some thousand are kept: to look for more each time costs more
        delete from pgstage.schedule_fire f
         where f.schedule = s.id and f.cancel_at is null and f.outcome <> 'queued'
           and f.tick < (select k.tick from pgstage.schedule_fire k where k.schedule = s.id
                          order by k.tick desc offset 1000 limit 1);
    end if;
end
$$;

-- What is due of one schedule, whose row is locked. Waits a moment for the tasks that it must write, and no longer: others
-- of the pipeline, and of the node, wait meanwhile.
create function pgstage.schedule_look(s pgstage.schedule, instant timestamptz) returns void language plpgsql
set lock_timeout = '300ms'
as $$
begin
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
end
$$;

-- Looks at the schedules of some pipelines that are due. Any node may, at any time: a schedule that another one looks at
-- is passed by, and each tick is judged once. One that waits for a lock is looked at again in a second; one that fails, in a
-- minute, and says why, of the tick that was due; in both cases nothing of the look stays, and the others go on. A deadlock or a server that goes down
-- ends it all: it is tried again. labels: those of the node. Returns how many were looked at, and in how many ms the next is
-- due (null: none).
create or replace function pgstage.fire_schedules(pipelines int[], at_most int, labels text[] default '{}', out looked int,
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
        begin
            perform pgstage.schedule_look(s, instant);
        exception when others then
            if sqlstate = '55P03' then
                update pgstage.schedule c set look_at = instant + interval '1 second' where c.id = s.id;
            elsif left(sqlstate, 2) in ('40', '53', '55', '57', '58', 'XX') then
                raise;
            else
                insert into pgstage.schedule_fire (schedule, tick, outcome, error_text)
                values (s.id, case when not s.paused and s.next_at <= instant then s.next_tick else instant end, 'failed',
                        sqlerrm)
                on conflict (schedule, tick) do update set outcome = 'failed', error_text = excluded.error_text;
                update pgstage.schedule c set look_at = instant + interval '1 minute' where c.id = s.id;
            end if;
        end;
        looked := looked + 1;
    end loop;
    select ceil(extract(epoch from min(greatest(c.look_at, instant)) - instant) * 1000) into wait_ms
      from pgstage.schedule c where c.look_at is not null and c.pipeline = any(pipelines) and c.requires <@ labels;
end
$$;

-- Makes the schedules of a definition hold (config/settings.c says what they look like; null: none). One whose times are
-- unchanged keeps its grid, its next tick and, while it does the same, what is pending; a pause stays; one that is gone goes,
-- with its history.
create or replace function pgstage.set_schedules(pipeline int, schedules jsonb) returns void language plpgsql
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
                                then c.next_tick end,
               rerun_after = case when c.action = excluded.action then c.rerun_after end,
               queued_tick = case when c.action = excluded.action and excluded.overlap = 'queue' then c.queued_tick end
        returning * into s;
        update pgstage.schedule_fire f set outcome = 'skipped'
         where f.schedule = s.id and f.outcome = 'queued' and f.tick is distinct from s.queued_tick;
        s.next_tick := coalesce(s.next_tick, pgstage.schedule_next(s, instant));
        update pgstage.schedule c
           set next_tick = s.next_tick, next_at = pgstage.schedule_due(s, s.next_tick)
         where c.id = s.id;
        perform pgstage.schedule_rest(s.id);
    end loop;
end
$$;

-- Runs tasks again whose period is over, as a rerun does: a running one is only marked. One that is to run anyway, now or
-- later, is left where it is. The next time is counted from the last one; those that lie in the past are left out. Waits for
-- no lock: what is locked is due at the next call as well.
create or replace function pgstage.run_periods(at_most int) returns bigint language plpgsql
as $$
declare
    due bigint[];
    ended bigint[];
begin
    select array_agg(d.id), array_agg(d.id) filter (where d.status in ('done', 'failed', 'running')) into due, ended
      from (select t.id, t.status from pgstage.periodic p join pgstage.task t on t.id = p.task
             where p.due_at <= pgstage.now()
             order by p.due_at, p.task limit at_most for update of t, p skip locked) d;
    update pgstage.periodic p
       set due_at = p.due_at + (floor(extract(epoch from pgstage.now() - p.due_at) * 1000 / p.every_ms) + 1)
                               * p.every_ms * interval '1 ms'
     where p.task = any(due);
    return pgstage.rerun_tasks(ended, null);
end
$$;
