/* Scenarios of schedules: when they fire, and that each tick does so once. C10, C30, C34, C36. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "scenarios.h"

/* The database's clock stands at that time of one day until the next reset. */
static void at(struct world *world, const char *time) {
    world_sql(world, world->eye, "select test.set_clock('2031-01-01 %s+00')", time);
}

#define EVERY "\"spec\": \"every 10m\", \"every_ms\": 600000, "
#define SUBMIT "\"action\": {\"do\": \"submit\", \"key\": \"k/{tick}\", \"payload\": {\"at\": \"{tick}\"}}, "
#define RULES(overlap, missed) "\"overlap\": \"" overlap "\", \"missed\": \"" missed "\""
#define NAMED(name) "{\"name\": \"" name "\", "

static void set(struct world *world, const char *schedules) {
    world_sql(world, world->eye, "select pgstage.set_schedules(%d, '[%s]')", world->pipeline,
              schedules);
}

/* Every 10 minutes from 10:00 on. */
static void set_every(struct world *world, const char *rest) {
    char text[500];
    at(world, "10:00:00.4");
    snprintf(text, sizeof text, NAMED("s") EVERY SUBMIT "%s}", rest);
    set(world, text);
}

static int64_t fire(struct world *world) {
    return world_int(world, "select looked from pgstage.fire_schedules(array[%d], 20)",
                     world->pipeline);
}

static int64_t fire_at(struct world *world, const char *time) {
    at(world, time);
    return fire(world);
}

static const char *fires(struct world *world) {
    return world_text(world, "select string_agg(to_char(tick at time zone 'UTC', 'HH24:MI:SS ') || "
                             "outcome, ', ' order by tick) from pgstage.schedule_fire");
}

static const char *next_tick(struct world *world) {
    return world_text(world, "select to_char(next_tick at time zone 'UTC', 'HH24:MI:SS') from "
                             "pgstage.schedule where name = 's'");
}

static bool fires_are(struct world *world, const char *expected) {
    const char *got = fires(world);
    return world_expect(world, strcmp(got, expected) == 0, "%s instead of %s", got, expected);
}

static int64_t tasks(struct world *world) {
    return world_int(world, "select count(*) from pgstage.task");
}

bool ticks_come_from_the_grid(struct world *world) {
    set_every(world, RULES("allow", "once"));
    EXPECT(world, fire_at(world, "10:09:59.999") == 0 && tasks(world) == 0, "it fired early");
    EXPECT(world,
           world_int(world, "select wait_ms from pgstage.fire_schedules(array[%d], 20)",
                     world->pipeline) == 1,
           "the wait is not 1 ms");
    EXPECT(world, fire_at(world, "10:10:25") == 1, "it did not fire");
    EXPECT(world, fire(world) == 0, "it fired again");
    fire_at(world, "10:20:00");
    EXPECT(world, fires_are(world, "10:10:00 fired, 10:20:00 fired"), "ticks");
    const char *keys =
        world_text(world, "select string_agg(key, ' ' order by key) from pgstage.task where "
                          "payload->>'at' = substr(key, 3)");
    EXPECT(world, strcmp(keys, "k/2031-01-01T10:10:00Z k/2031-01-01T10:20:00Z") == 0, "%s", keys);
    EXPECT(world, strcmp(next_tick(world), "10:30:00") == 0, "%s", next_tick(world));
    world_rest(world);
    return world_is_sound(world);
}

/* Two nodes at once: one passes by what the other has in hand, and finds nothing left of it. */
bool a_tick_fires_once_with_two_leaders(struct world *world) {
    set_every(world, RULES("allow", "once"));
    at(world, "10:10:01");
    world_script(world, world->one, "begin");
    world_sql(world, world->one, "select pgstage.fire_schedules(array[%d], 20)", world->pipeline);
    const struct db_result *other = world_sql(
        world, world->two, "select looked from pgstage.fire_schedules(array[%d], 20)", world->pipeline);
    EXPECT(world, other != NULL && db_int64(other, 0, 0) == 0, "the other one fired as well");
    world_script(world, world->one, "commit");
    EXPECT(world, fire(world) == 0 && tasks(world) == 1, "%d tasks", (int)tasks(world));
    return world_is_sound(world);
}

/* Whatever becomes of next_tick: a clock that went back, a row that was restored. */
bool a_tick_that_was_judged_is_not_judged_again(struct world *world) {
    set_every(world, RULES("allow", "all"));
    fire_at(world, "10:10:00");
    int64_t version = world_int(world, "select sum(version) from pgstage.task");
    world_sql(world, world->eye, "update pgstage.schedule set next_tick = '2031-01-01 10:10+00', "
                                 "next_at = '2031-01-01 10:10+00', look_at = next_at");
    world_sql(world, world->eye, "update pgstage.schedule set look_at = next_at");
    EXPECT(world, fire_at(world, "10:10:30") == 1, "it was not looked at");
    EXPECT(world, version == world_int(world, "select sum(version) from pgstage.task"), "twice");
    EXPECT(world, fires_are(world, "10:10:00 fired"), "ticks");
    return world_is_sound(world);
}

static bool missed_are(struct world *world, const char *missed, const char *time, int64_t count,
                       const char *expected) {
    char rest[100];
    world_reset(world);
    snprintf(rest, sizeof rest, "\"overlap\": \"allow\", \"missed\": \"%s\"", missed);
    set_every(world, rest);
    fire_at(world, time);
    EXPECT(world, fires_are(world, expected), "%s at %s", missed, time);
    EXPECT(world, tasks(world) == count, "%s at %s: %d tasks", missed, time, (int)tasks(world));
    EXPECT(world, fire(world) == 0, "%s: again", missed);
    return world_is_sound(world);
}

bool missed_ticks_are_made_up_for_as_they_should(struct world *world) {
    return missed_are(world, "skip", "10:10:59", 1, "10:10:00 fired") &&
           missed_are(world, "skip", "10:11:01", 0, "10:10:00 missed") &&
           missed_are(world, "skip", "10:30:10", 1,
                      "10:10:00 missed, 10:20:00 missed, 10:30:00 fired") &&
           missed_are(world, "once", "10:35:00", 1,
                      "10:10:00 missed, 10:20:00 missed, 10:30:00 fired") &&
           missed_are(world, "all", "10:39:59.5", 3,
                      "10:10:00 fired, 10:20:00 fired, 10:30:00 fired");
}

/* Of a long absence the newest thousand count; the others are one row. */
bool a_long_absence_is_bounded(struct world *world) {
    static const char *const times[] = {
        EVERY, "\"spec\": \"*/10 * * * *\", \"zone\": \"UTC\", \"cron\": {\"minutes\": 1127000493261825, "
               "\"hours\": 16777215, \"days\": 4294967294, \"months\": 8190, \"weekdays\": 127, "
               "\"day_or_weekday\": false}, "};
    for (int i = 0; i < 2; i++) {
        char text[700];
        world_reset(world);
        at(world, "10:00:00");
        snprintf(text, sizeof text, NAMED("s") "%s\"action\": {\"do\": \"scan\"}, " RULES("allow", "all") "}", times[i]);
        set(world, text);
        world_sql(world, world->eye, "select test.set_clock('2031-02-01 00:05+00')");
        int looks = 0;
        while (fire(world) == 1 && looks < 60) {
            looks++;
        }
        EXPECT(world, looks == 50, "%s: %d looks, not 20 ticks each", times[i], looks);
        EXPECT(world,
               world_int(world, "select count(*) from pgstage.schedule_fire where outcome = 'fired' and "
                                "tick between '2031-01-25 01:30+00' and '2031-02-01 00:00+00'") == 1000,
               "%s: not the newest thousand", times[i]);
        EXPECT(world,
               world_int(world, "select count(*) from pgstage.schedule_fire where outcome = "
                                "'missed' and tick = '2031-01-01 10:10+00'") == 1,
               "%s: the first was forgotten", times[i]);
        EXPECT(world, strcmp(next_tick(world), "00:10:00") == 0, "%s", next_tick(world));
        world_sql(world, world->eye, "select test.set_clock('2031-02-20 00:00+00')");
        EXPECT(world, fire(world) == 1, "%s: it does not go on", times[i]);
        EXPECT(world, world_int(world, "select count(*) from pgstage.schedule_fire") == 1001,
               "%s: what became of old ticks is kept", times[i]);
        EXPECT(world, world_int(world, "select wait_ms from pgstage.fire_schedules(array[%d], 20)", world->pipeline) == 0,
               "%s: the others wait", times[i]);
    }
    return world_is_sound(world);
}

bool an_overlap_is_skipped_once_a_tick(struct world *world) {
    set_every(world, RULES("skip", "once"));
    fire_at(world, "10:10:00");
    fire_at(world, "10:20:00");
    EXPECT(world, fire(world) == 0, "it is looked at again and again");
    fire_at(world, "10:30:00");
    EXPECT(world, tasks(world) == 1, "%d tasks", (int)tasks(world));
    world_rest(world);
    fire_at(world, "10:40:00");
    world_cancel(world, world_int(world, "select max(id) from pgstage.task"));
    fire_at(world, "10:50:00");
    EXPECT(world, fires_are(world, "10:10:00 fired, 10:20:00 skipped, 10:30:00 skipped, "
                                   "10:40:00 fired, 10:50:00 fired"),
           "ticks");
    return world_is_sound(world);
}

bool an_overlap_is_queued(struct world *world) {
    set_every(world, RULES("queue", "once"));
    fire_at(world, "10:10:00");
    fire_at(world, "10:20:00");
    fire_at(world, "10:30:00");
    EXPECT(world, fires_are(world, "10:10:00 fired, 10:20:00 queued, 10:30:00 skipped"), "ticks");
    EXPECT(world,
           world_int(world, "select wait_ms from pgstage.fire_schedules(array[%d], 20)",
                     world->pipeline) == 1000,
           "what is queued is not looked at within a second");
    world_rest(world);
    fire_at(world, "10:30:01");
    EXPECT(world, fires_are(world, "10:10:00 fired, 10:20:00 fired, 10:30:00 skipped"), "ticks");
    EXPECT(world, tasks(world) == 2, "%d tasks", (int)tasks(world));
    fire_at(world, "10:40:00");
    EXPECT(world, world_int(world, "select count(*) from pgstage.schedule where queued_tick = "
                                   "'2031-01-01 10:40+00'") == 1,
           "10:40 is not queued");
    return world_is_sound(world);
}

/* The version that it submitted has ended, though the task runs for somebody else's. */
bool an_overlap_is_of_its_own_version(struct world *world) {
    at(world, "10:00:00");
    set(world, NAMED("s") EVERY
        "\"action\": {\"do\": \"submit\", \"key\": \"k\"}, " RULES("skip", "once") "}");
    fire_at(world, "10:10:00");
    world_rest(world);
    world_sql(world, world->eye, "select pgstage.rerun_tasks(array[1], null)");
    fire_at(world, "10:20:00");
    EXPECT(world, fires_are(world, "10:10:00 fired, 10:20:00 fired"), "ticks");
    EXPECT(world, world_int(world, "select version from pgstage.task") == 3, "version");
    return world_is_sound(world);
}

bool a_schedule_survives_what_fails(struct world *world) {
    set_every(world, RULES("skip", "once"));
    world_sql(world, world->eye, "update pgstage.schedule set action = action || "
                                 "jsonb_build_object('key', repeat('x', 2000))");
    fire_at(world, "10:10:00");
    EXPECT(world, fires_are(world, "10:10:00 failed"), "ticks");
    EXPECT(world, world_int(world, "select count(*) from pgstage.schedule_fire where error_text like "
                                   "'a key has 1 to 1024 bytes'") == 1,
           "no reason");
    EXPECT(world, fire(world) == 0, "it is tried again at once");
    fire_at(world, "10:20:00");
    EXPECT(world, fires_are(world, "10:10:00 failed, 10:20:00 failed"), "ticks");
    return world_is_sound(world);
}

/* One whose task somebody holds is tried again in a second, and holds up no other. */
bool a_lock_that_is_not_had_loses_no_tick(struct world *world) {
    at(world, "10:00:00");
    set(world, NAMED("s") EVERY "\"action\": {\"do\": \"submit\", \"key\": \"k\"}, " RULES("allow", "once") "}, "
               NAMED("t") EVERY "\"action\": {\"do\": \"submit\", \"key\": \"free\"}, " RULES("allow", "once") "}");
    fire_at(world, "10:10:00");
    world_script(world, world->two, "begin; select 1 from pgstage.task where key = 'k' for update");
    int64_t begin_ms = clock_now_ms(&clock_boottime);
    EXPECT(world, fire_at(world, "10:20:00") == 2, "it was not looked at");
    EXPECT(world, clock_now_ms(&clock_boottime) - begin_ms < 3000, "it waited for long");
    EXPECT(world, fires_are(world, "10:10:00 fired, 10:10:00 fired, 10:20:00 fired"), "ticks");
    EXPECT(world, world_int(world, "select version from pgstage.task where key = 'free'") == 2, "the other one waited");
    EXPECT(world, fire(world) == 0 && fire_at(world, "10:20:01") == 1, "not in a second");
    world_script(world, world->two, "commit");
    fire_at(world, "10:20:02");
    EXPECT(world, fires_are(world, "10:10:00 fired, 10:10:00 fired, 10:20:00 fired, 10:20:00 fired"), "ticks");
    EXPECT(world, world_int(world, "select version from pgstage.task where key = 'k'") == 2, "it did not run");
    return world_is_sound(world);
}

/* A server that has lost its zone, say: the schedule says so, and no other waits. */
bool a_schedule_that_cannot_be_judged_fails_alone(struct world *world) {
    at(world, "10:00:00");
    set(world, NAMED("s") EVERY SUBMIT RULES("allow", "once") "}, " NAMED("t") EVERY SUBMIT RULES("allow", "once") "}");
    world_sql(world, world->eye, "update pgstage.schedule set every_ms = null, zone = 'No/Where', look_at = look_at - interval '1 s',"
                                 " cron = '{\"minutes\": 1, \"hours\": 1, \"days\": 2, \"months\": 2, \"weekdays\": 1,"
                                 " \"day_or_weekday\": false}' where name = 's'");
    EXPECT(world, fire_at(world, "10:10:00") == 2, "not both were looked at");
    EXPECT(world, tasks(world) == 1, "%d tasks", (int)tasks(world));
    EXPECT(world, world_int(world, "select count(*) from pgstage.schedule_fire where outcome = 'failed' and error_text like "
                                   "'%%No/Where%%'") == 1,
           "it does not say why");
    EXPECT(world, fire_at(world, "10:10:59") == 0 && fire_at(world, "10:11:00") == 1, "not in a minute");
    return world_is_sound(world);
}

/* No tick is due yet: what fails is a rerun that goes on. The tick comes when it is due. */
bool a_look_that_fails_takes_no_tick_that_is_to_come(struct world *world) {
    set_every(world, RULES("allow", "once"));
    world_submit(world, "k");
    world_rest(world);
    world_script(world, world->eye,
                 "create function test.refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;"
                 " create trigger refuse before update on pgstage.task for each row execute function test.refuse()");
    world_sql(world, world->eye, "update pgstage.schedule set rerun_after = '', look_at = pgstage.now()");
    fire_at(world, "10:05:00");
    EXPECT(world, fires_are(world, "10:05:00 failed"), "ticks");
    world_script(world, world->eye, "drop trigger refuse on pgstage.task");
    fire_at(world, "10:10:00");
    EXPECT(world, fires_are(world, "10:05:00 failed, 10:10:00 fired"), "ticks");
    return world_is_sound(world);
}

/* A deadlock is nobody's fault, and leaves the transaction unusable for the others as well. */
bool a_deadlock_ends_the_look(struct world *world) {
    set_every(world, RULES("allow", "once"));
    world_script(world, world->eye,
                 "create function test.clash() returns trigger language plpgsql as $$ begin raise 'clash' using errcode = '40P01';"
                 " end $$; create trigger clash before insert on pgstage.task for each row execute function test.clash()");
    at(world, "10:10:00");
    world_fails(world, world->one, "40P01", "select pgstage.fire_schedules(array[%d], 20)", world->pipeline);
    world_script(world, world->eye, "drop trigger clash on pgstage.task");
    fire(world);
    EXPECT(world, fires_are(world, "10:10:00 fired"), "ticks");
    return world_is_sound(world);
}

static void queue_behind_a_rerun(struct world *world, const char *tick) {
    world_sql(world, world->eye, "update pgstage.schedule set rerun_after = 'k'");
    world_sql(world, world->eye, "select pgstage.schedule_judge(id, '2031-01-01 %s+00', false) from pgstage.schedule", tick);
}

/* What was pending of the old action is not done by the new one. */
bool what_is_pending_goes_with_its_action(struct world *world) {
    const char *const rerun = NAMED("s") EVERY "\"action\": {\"do\": \"rerun\", \"from\": \"b\"}, " RULES("queue", "once") "}";
    at(world, "10:00:00");
    set(world, rerun);
    queue_behind_a_rerun(world, "10:10");
    set(world, rerun);
    EXPECT(world, world_int(world, "select count(*) from pgstage.schedule where rerun_after = 'k' and queued_tick is not null") == 1,
           "the same again ended it");
    EXPECT(world, fires_are(world, "10:10:00 queued"), "ticks");
    set(world, NAMED("s") EVERY "\"action\": {\"do\": \"rerun\", \"from\": \"b\"}, " RULES("skip", "once") "}");
    EXPECT(world, world_int(world, "select count(*) from pgstage.schedule where rerun_after = 'k' and queued_tick is null") == 1,
           "what was queued is still to fire");
    EXPECT(world, fires_are(world, "10:10:00 skipped"), "ticks");
    set(world, rerun);
    queue_behind_a_rerun(world, "10:20");
    set(world, NAMED("s") EVERY "\"action\": {\"do\": \"scan\"}, " RULES("queue", "once") "}");
    EXPECT(world, world_int(world, "select count(*) from pgstage.schedule where rerun_after is null and queued_tick is null") == 1,
           "another action goes on with it");
    EXPECT(world, fires_are(world, "10:10:00 skipped, 10:20:00 skipped"), "ticks");
    return world_is_sound(world);
}

bool a_pause_holds_and_is_not_made_up_for(struct world *world) {
    set_every(world, RULES("allow", "all"));
    EXPECT(world, strcmp(world_text(world, "select pgstage.pause_schedule('p', 's', true)"), "t") == 0,
           "not paused");
    set_every(world, RULES("allow", "all"));
    EXPECT(world, fire_at(world, "10:25:00") == 0 && tasks(world) == 0, "it fired while paused");
    world_sql(world, world->eye, "select pgstage.pause_schedule('p', 's', false)");
    EXPECT(world, fire(world) == 0 && tasks(world) == 0, "it was made up for");
    fire_at(world, "10:30:00");
    EXPECT(world, fires_are(world, "10:30:00 fired"), "ticks");
    EXPECT(world,
           strcmp(world_text(world, "select pgstage.pause_schedule('p', 't', true)"), "f") == 0,
           "there is a 't'");
    return world_is_sound(world);
}

/* Deploys and restarts register again. */
bool a_grid_survives_registering(struct world *world) {
    set_every(world, RULES("allow", "once"));
    at(world, "10:07:00");
    set(world, NAMED("s") EVERY SUBMIT RULES("skip", "all") "}");
    EXPECT(world, strcmp(next_tick(world), "10:10:00") == 0, "%s", next_tick(world));
    at(world, "10:13:00"); /* a tick is due, and was not judged yet */
    set(world, NAMED("s") EVERY SUBMIT RULES("skip", "all") "}");
    fire(world);
    EXPECT(world, fires_are(world, "10:10:00 fired"), "ticks");
    EXPECT(world, strcmp(next_tick(world), "10:20:00") == 0, "%s", next_tick(world));
    set(world, NAMED("s") "\"spec\": \"every 5m\", \"every_ms\": 300000, " SUBMIT RULES("allow", "once") "}");
    EXPECT(world, strcmp(next_tick(world), "10:18:00") == 0, "%s", next_tick(world));
    set(world, NAMED("t") EVERY SUBMIT RULES("allow", "once") "}");
    EXPECT(world, world_int(world, "select count(*) from pgstage.schedule where name = 's'") == 0,
           "'s' is still there");
    world_sql(world, world->eye, "select pgstage.settle(%d, '{}')", world->pipeline);
    EXPECT(world, world_int(world, "select count(*) from pgstage.schedule") == 0, "'t' is there");
    return world_is_sound(world);
}

bool an_unknown_zone_is_refused(struct world *world) {
    static const char *const zones[] = {"Europe/Osloo", "Nowhere7", ""};
    for (int i = 0; i < 3; i++) {
        world_fails(world, world->eye, "P0F04",
                    "select pgstage.set_schedules(%d, '[" NAMED("s") "\"spec\": \"\", \"zone\": "
                    "\"%s\", \"cron\": {}, " SUBMIT RULES("skip", "once") "}]')",
                    world->pipeline, zones[i]);
    }
    return world_is_sound(world);
}

bool a_jitter_is_the_same_whoever_asks(struct world *world) {
    set_every(world, RULES("allow", "once") ", \"jitter_ms\": 60000");
    EXPECT(world,
           world_int(world, "select count(distinct d) from pgstage.schedule s, generate_series(1, 50) n, "
                            "lateral (select pgstage.schedule_due(s, s.anchor + n * interval '1 day') "
                            "- s.anchor - n * interval '1 day' as d) j "
                            "where d >= interval '0' and d < interval '1 minute'") > 40,
           "not spread");
    const char *due = world_text(world, "select (next_at at time zone 'UTC')::time from pgstage.schedule");
    char time[40];
    snprintf(time, sizeof time, "%s", due);
    world_sql(world, world->eye, "select test.set_clock(next_at - interval '1 ms') from pgstage.schedule");
    EXPECT(world, fire(world) == 0, "before %s", time);
    EXPECT(world, fire_at(world, time) == 1, "not at %s", time);
    EXPECT(world, fires_are(world, "10:10:00 fired"), "ticks");
    return world_is_sound(world);
}

bool what_takes_too_long_is_cancelled(struct world *world) {
    set_every(world, RULES("allow", "once") ", \"timeout_ms\": 300000");
    fire_at(world, "10:10:00");
    EXPECT(world, fire_at(world, "10:14:59") == 0, "it is looked at early");
    EXPECT(world, fire_at(world, "10:15:00") == 1, "it is not looked at");
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.task where status = 'cancelled' and "
                            "error_text = 'cancelled by schedule \"s\": not done 00:05:00 after it began'") == 1,
           "not cancelled");
    /* One that runs is told; one that is done, and a version of somebody else's, are left alone. */
    fire_at(world, "10:20:00");
    int64_t running = world_int(world, "select max(id) from pgstage.task");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    fire_at(world, "10:25:00");
    EXPECT(world, world_row(world, running).has_wish, "the one that runs is not told");
    struct move next = {.task = running, .claim = claim, .count = 1, .ending = "next"};
    world_complete(world, world->one, &next);
    EXPECT(world, strcmp(world_row(world, running).status, "cancelled") == 0, "it goes on");
    fire_at(world, "10:30:00");
    world_rest(world);
    fire_at(world, "10:35:00");
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.task where status = 'done' and error_text is null") == 1,
           "the one that was done is not");
    fire_at(world, "10:40:00");
    world_resubmit(world, world_int(world, "select max(id) from pgstage.task"));
    fire_at(world, "10:45:00");
    EXPECT(world, world_int(world, "select count(*) from pgstage.task where status = 'ready'") == 1,
           "somebody else's version was cancelled");
    return world_is_sound(world);
}

bool a_rerun_goes_on_in_batches(struct world *world) {
    world_sql(world, world->eye,
              "select count(*) from pgstage.submit_set('p', array(select 'k' || i from "
              "generate_series(1, 2500) i), array_fill(null::jsonb, array[2500]), "
              "array_fill(null::timestamptz, array[2500]), array_fill(0, array[2500]), "
              "array_fill(null::timestamptz, array[2500]), false)");
    world_sql(world, world->eye,
              "with done as (update pgstage.task set status = 'done', ready_stage = null, stage = %d, "
              "done_version = 1 where key <> 'k2500' returning 1) insert into pgstage.task_count_delta "
              "select %d, d.stage, d.status, d.n from (values (%d, 'ready', -2499), (%d, 'done', 2499)) "
              "d(stage, status, n)",
              world->stages[STAGE_C], world->pipeline, world->stages[STAGE_A], world->stages[STAGE_C]);
    at(world, "10:00:00");
    set(world, NAMED("s") EVERY "\"action\": {\"do\": \"rerun\", \"from\": \"b\"}, " RULES("skip", "once") "}");
    EXPECT(world, fire_at(world, "10:10:00") == 1, "not looked at");
    int rounds = 0;
    while (fire(world) == 1 && rounds < 10) {
        rounds++;
    }
    EXPECT(world, rounds == 3, "%d rounds", rounds);
    EXPECT(world,
           world_int(world, "select count(*) from pgstage.task where version = 2 and status = 'ready' "
                            "and stage = %d", world->stages[STAGE_B]) == 2499,
           "not all run again from b");
    EXPECT(world, world_int(world, "select version from pgstage.task where key = 'k2500'") == 1,
           "one that was not done ran again");
    return world_is_sound(world);
}

/* Somebody is at work on it: it will run, or has just run, without the schedule. */
bool a_rerun_passes_by_what_is_locked(struct world *world) {
    world_submit(world, "held");
    world_submit(world, "free");
    world_rest(world);
    at(world, "10:00:00");
    set(world, NAMED("s") EVERY "\"action\": {\"do\": \"rerun\"}, " RULES("skip", "once") "}");
    fire_at(world, "10:10:00");
    world_script(world, world->two, "begin; select 1 from pgstage.task where key = 'held' for update");
    fire_at(world, "10:10:01");
    world_script(world, world->two, "commit");
    EXPECT(world, world_int(world, "select version from pgstage.task where key = 'free'") == 2, "the other one waits");
    EXPECT(world, world_int(world, "select version from pgstage.task where key = 'held'") == 1, "it ran");
    return world_is_sound(world);
}

bool a_rerun_that_goes_on_overlaps(struct world *world) {
    world_submit(world, "k");
    at(world, "10:00:00");
    set(world, NAMED("s") EVERY "\"action\": {\"do\": \"rerun\"}, " RULES("skip", "once") "}");
    fire_at(world, "10:10:00");
    EXPECT(world, fire(world) == 1 && fire(world) == 0, "one round is not enough");
    fire_at(world, "10:20:00");
    world_sql(world, world->eye, "update pgstage.schedule set rerun_after = 'a'");
    world_sql(world, world->eye, "select pgstage.schedule_judge(id, '2031-01-01 10:30+00', false) from "
                                 "pgstage.schedule");
    EXPECT(world, fires_are(world, "10:10:00 fired, 10:20:00 fired, 10:30:00 skipped"), "ticks");
    return world_is_sound(world);
}

bool a_scan_is_asked_for(struct world *world) {
    enum { SCHEDULE_MS = 5, SCAN = 6 };
    at(world, "10:00:00");
    set(world, NAMED("s") EVERY "\"action\": {\"do\": \"scan\"}, " RULES("skip", "once") "}");
    char stages[24];
    snprintf(stages, sizeof stages, "{%d}", world->stages[STAGE_A]);
    const struct db_result *before =
        world_call(world, world->eye, &sql_pipelines_state, 3, stages, "f", "{}");
    EXPECT(world, before != NULL && db_int64(before, 0, SCHEDULE_MS) == 600000 && db_int64(before, 0, SCAN) == 0,
           "at 10:00 the wait is %s", before == NULL ? "" : db_value(before, 0, SCHEDULE_MS));
    fire_at(world, "10:10:00");
    const struct db_result *after = world_call(world, world->eye, &sql_pipelines_state, 3, stages, "f", "{}");
    EXPECT(world, after != NULL && db_int64(after, 0, SCAN) == INT64_C(1925028600000000),
           "the scan is %s", after == NULL ? "" : db_value(after, 0, SCAN));
    return world_is_sound(world);
}

static int64_t fire_with(struct world *world, const char *labels) {
    return world_int(world, "select looked from pgstage.fire_schedules(array[%d], 20, '%s')", world->pipeline, labels);
}

/* Other nodes neither fire it nor wake for it. */
bool a_schedule_is_fired_where_its_labels_are(struct world *world) {
    enum { SCHEDULE_MS = 5 };
    set_every(world, "\"requires\": [\"cron\", \"eu\"], " RULES("skip", "once"));
    at(world, "10:10:00");
    char stages[24];
    snprintf(stages, sizeof stages, "{%d}", world->stages[STAGE_A]);
    const struct db_result *without = world_call(world, world->eye, &sql_pipelines_state, 3, stages, "f", "{eu}");
    EXPECT(world, without != NULL && db_is_null(without, 0, SCHEDULE_MS), "a node without the label waits for it");
    EXPECT(world, world_int(world, "select count(*) from pgstage.fire_schedules(array[%d], 20, '{eu}') where wait_ms is null",
                            world->pipeline) == 1,
           "it waits for it after a look");
    EXPECT(world, fire_with(world, "{}") == 0 && fire_with(world, "{cron}") == 0 && tasks(world) == 0, "it fired");
    const struct db_result *with = world_call(world, world->eye, &sql_pipelines_state, 3, stages, "f", "{x,eu,cron}");
    EXPECT(world, with != NULL && !db_is_null(with, 0, SCHEDULE_MS), "nobody waits for it");
    EXPECT(world, fire_with(world, "{x,eu,cron}") == 1 && tasks(world) == 1, "it did not fire");
    return world_is_sound(world);
}

/* A node that has none, or none that is to fire, is told of no time. */
bool a_schedule_that_rests_wakes_nobody(struct world *world) {
    enum { SCHEDULE_MS = 5 };
    char stages[24];
    snprintf(stages, sizeof stages, "{%d}", world->stages[STAGE_A]);
    for (int paused = 0; paused < 2; paused++) {
        const struct db_result *state = world_call(world, world->eye, &sql_pipelines_state, 3, stages, "f", "{}");
        EXPECT(world, state != NULL && db_is_null(state, 0, SCHEDULE_MS), "a time with %s", paused ? "a pause" : "none");
        EXPECT(world, world_int(world, "select count(*) from pgstage.fire_schedules(array[%d], 20) where wait_ms is null",
                                world->pipeline) == 1,
               "a time after a look");
        set_every(world, RULES("skip", "once"));
        world_sql(world, world->eye, "select pgstage.pause_schedule('p', 's', true)");
        at(world, "10:30:00");
    }
    return world_is_sound(world);
}

bool a_schedule_is_fired_by_hand(struct world *world) {
    set_every(world, RULES("skip", "once"));
    at(world, "10:03:00.5");
    for (int i = 0; i < 2; i++) {
        EXPECT(world, world_int(world, "select count(*) from pgstage.fire_schedule('p', 's') where "
                                       "outcome = 'fired' and task is not null") == 1,
               "not fired");
        at(world, "10:04:00");
    }
    EXPECT(world, strcmp(next_tick(world), "10:10:00") == 0, "%s", next_tick(world));
    EXPECT(world, world_int(world, "select count(*) from pgstage.fire_schedule('p', 'x')") == 0, "x");
    EXPECT(world, world_int(world, "select count(*) from pgstage.task where key = "
                                   "'k/2031-01-01T10:03:00.500000Z'") == 1,
           "the key");
    return world_is_sound(world);
}
