/* C29, C32: pgstage.cron_next against an oracle that walks every minute with the C library's clocks and applies the rule by
 * sets of local minutes; and what it costs. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "support/pg.h"

TestSuite(cron, .timeout = 300);

enum { MINUTE = 60, HOUR = 3600, DAY = 24 * HOUR };
#define ALL_HOURS 16777215
#define ALL_DAYS INT64_C(4294967294)

struct spec {
    const char *text;
    int64_t minutes;
    int hours;
    int64_t days;
    int months;
    bool dense; /* checked around the changes only */
};

static const struct spec specs[] = {
    {"30 2 * * *", 1 << 30, 1 << 2, ALL_DAYS, 8190, false},
    {"30 1 * * *", 1 << 30, 1 << 1, ALL_DAYS, 8190, false},
    {"0 0 * * *", 1, 1, ALL_DAYS, 8190, false}, /* @daily */
    {"0 0 29 2 *", 1, 1, 1 << 29, 1 << 2, false},
    {"0 */2 * * *", 1, 0x555555, ALL_DAYS, 8190, false},
    {"5 * * * *", 1 << 5, ALL_HOURS, ALL_DAYS, 8190, true},
    {"*/15 * * * *", INT64_C(35185445863425), ALL_HOURS, ALL_DAYS, 8190, true},
    {"*/20 0-2,23 * * *", INT64_C(1099512676353), 0x800007, ALL_DAYS, 8190, true},
};

static const struct zone {
    const char *name;
    int year, last_year; /* changes of these years; all of the first one */
} zones[] = {
    {"Europe/Oslo", 2025, 2030},      {"America/New_York", 2025, 2030}, {"Australia/Lord_Howe", 2025, 2030},
    {"Africa/Casablanca", 2025, 2030}, {"Asia/Kathmandu", 2025, 2030},  {"America/Havana", 2025, 2030},
    {"Pacific/Apia", 2011, 2012},     {"Europe/London", 2025, 2030},
};

ParameterizedTestParameters(cron, agrees_with_an_oracle) {
    return cr_make_param_array(const struct zone, zones, sizeof zones / sizeof *zones);
}

/* ---- the oracle ---- */

static int64_t local_minute(int64_t instant, struct tm *local) {
    time_t seconds = (time_t)instant;
    localtime_r(&seconds, local);
    return (instant + local->tm_gmtoff) / MINUTE;
}

static bool bit(int64_t mask, int at) {
    return ((mask >> at) & 1) != 0;
}

static bool matches(const struct spec *spec, const struct tm *local) {
    return bit(spec->minutes, local->tm_min) && bit(spec->hours, local->tm_hour) &&
           bit(spec->days, local->tm_mday) && bit(spec->months, local->tm_mon + 1);
}

static bool skipped_matches(const struct spec *spec, int64_t from, int64_t to) {
    for (int64_t minute = from; minute < to; minute++) {
        time_t seconds = (time_t)(minute * MINUTE);
        struct tm local;
        gmtime_r(&seconds, &local);
        if (matches(spec, &local)) {
            return true;
        }
    }
    return false;
}

/* Returns how many ticks there are in (begin, end); writes the first `room` of them. */
static int walk(const struct spec *spec, int64_t begin, int64_t end, int64_t *ticks, int room) {
    struct tm local;
    int64_t first = local_minute(begin - 2 * DAY, &local) - 2 * DAY / MINUTE, previous = 0;
    size_t size = (size_t)((end - begin + 10 * DAY) / MINUTE);
    bool *seen = mem_alloc(size * sizeof *seen), full = spec->hours == ALL_HOURS;
    int count = 0;
    for (int64_t instant = begin - 2 * DAY; instant < end; instant += MINUTE) {
        int64_t minute = local_minute(instant, &local);
        bool fires = matches(spec, &local) && (full || !seen[minute - first]);
        if (!full && previous != 0 && minute > previous + 1) {
            fires = fires || skipped_matches(spec, previous + 1, minute);
        }
        seen[minute - first] = true;
        previous = minute;
        if (fires && instant > begin) {
            cr_assert_lt(count, room);
            ticks[count++] = instant;
        }
    }
    free(seen);
    return count;
}

/* ---- the comparison ---- */

static const char walk_sql[] =
    "create or replace function cron_walk(minutes bigint, hours int, days bigint, months int, zone text, begun bigint,"
    " ended bigint) returns text language plpgsql as $$ declare t timestamptz := to_timestamp(begun); all_ticks text[]; begin"
    " loop t := pgstage.cron_next(minutes, hours, days, months, 127, false, zone, t);"
    " exit when t is null or t >= to_timestamp(ended); all_ticks := all_ticks || extract(epoch from t)::bigint::text;"
    " end loop; return array_to_string(all_ticks, ' '); end $$";

enum { ROOM = 20000 };

static void compare(const char *url, const struct zone *zone, const struct spec *spec, int64_t begin, int64_t end) {
    static int64_t expected[ROOM];
    int count = walk(spec, begin, end, expected, ROOM), at = 0;
    char *sql = mem_format("select cron_walk(%" PRId64 ", %d, %" PRId64 ", %d, '%s', %" PRId64 ", %" PRId64 ")",
                           spec->minutes, spec->hours, spec->days, spec->months, zone->name, begin, end);
    char *text = pg_text(url, sql), *end_at = text;
    while (*end_at != '\0') {
        int64_t got = strtoll(end_at, &end_at, 10);
        cr_assert(at < count && expected[at] == got, "%s in %s: %" PRId64 " instead of %" PRId64, spec->text, zone->name,
                  got, at < count ? expected[at] : 0);
        at++;
    }
    cr_assert_eq(at, count, "%s in %s from %" PRId64 ": %d ticks instead of %d", spec->text, zone->name, begin, at, count);
    free(text);
    free(sql);
}

static int64_t year_begin(int year) {
    struct tm when = {.tm_year = year - 1900, .tm_mday = 1};
    return (int64_t)timegm(&when);
}

ParameterizedTest(const struct zone *zone, cron, agrees_with_an_oracle, .timeout = 300) {
    char *url = pg_new_migrated_database();
    pg_exec(url, walk_sql);
    setenv("TZ", zone->name, 1);
    tzset();
    struct tm local;
    int changes = 0;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        if (!specs[i].dense) {
            compare(url, zone, &specs[i], year_begin(zone->year), year_begin(zone->year + 1));
        }
    }
    int64_t begin = year_begin(zone->year), end = year_begin(zone->last_year + 1);
    local_minute(begin, &local);
    for (int64_t instant = begin + HOUR, shift = local.tm_gmtoff; instant < end; instant += HOUR) {
        local_minute(instant, &local);
        if (local.tm_gmtoff != shift) {
            for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
                compare(url, zone, &specs[i], instant - 84 * HOUR, instant + 84 * HOUR);
            }
            changes++;
        }
        shift = local.tm_gmtoff;
    }
    cr_expect(changes >= 3 || strcmp(zone->name, "Asia/Kathmandu") == 0, "%s: %d changes", zone->name, changes);
    free(url);
}

/* 2100 is no leap year; a date that never comes is not looked for without an end. Each within 10 ms, in the best of many
 * tries: others use the processor as well. */
Test(cron, c32_a_leap_day_is_found_and_the_search_ends) {
    char *url = pg_new_migrated_database();
    static const struct {
        const char *call, *expected;
    } calls[] = {
        {"1, 1, 1 << 29, 1 << 2, 127, false, 'UTC', '2096-03-01+00'", "2104-02-29"},
        {"1, 16777215, 1 << 29, 1 << 2, 127, false, 'Europe/Oslo', '2096-03-01+00'", "2104-02-28"},
        {"1, 1, 1 << 30, 1 << 2, 127, false, 'UTC', '2096-03-01+00'", ""},
        {"1, 1, 2147483648, 2640, 127, false, 'UTC', '2097-01-01+00'", ""}, /* the 31st of 4, 6, 9, 11 */
        {"1, 1, 2147483648, 1 << 2, 2, true, 'UTC', '2026-02-01+00'", "2026-02-02"}, /* or a Monday */
        {"1, 1, 1 << 13, 8190, 1 << 5, true, 'UTC', '2026-11-06+00'", "2026-11-13"},
        {"1, 1, 1 << 13, 8190, 1 << 5, false, 'UTC', '2026-11-14+00'", "2027-08-13"},
    };
    pg_exec(url, "create function best(call text) returns text language plpgsql as $$ declare t timestamptz; b timestamptz;"
                 " least_ms numeric := 1000; begin for i in 1 .. 200 loop b := clock_timestamp(); execute call into t;"
                 " least_ms := least(least_ms, extract(epoch from clock_timestamp() - b) * 1000); exit when least_ms < 10; end loop;"
                 " return coalesce((t at time zone 'UTC')::date::text, '')"
                 " || case when least_ms < 10 then '' else ' in ' || least_ms || ' ms' end; end $$");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char *sql = mem_format("select best($c$select pgstage.cron_next(%s)$c$)", calls[i].call);
        char *got = pg_text(url, sql);
        cr_expect_str_eq(got, calls[i].expected, "%s: %s", calls[i].call, got);
        free(got);
        free(sql);
    }
    free(url);
}

/* C30: looked at early, late, and with a clock that steps back: one row a tick. */
Test(cron, c30_ten_thousand_ticks_fire_once_each, .timeout = 300) {
    char *url = pg_new_migrated_database();
    pg_exec(url,
            "select * from pgstage.register('p', 'x', '{a}', 'apply', null, '{\"schedules\": [{\"name\": \"s\","
            " \"spec\": \"every 1s\", \"every_ms\": 1000, \"action\": {\"do\": \"scan\"},"
            " \"overlap\": \"allow\", \"missed\": \"all\"}]}')");
    pg_exec(url, "create table public.fired (tick timestamptz)");
    pg_exec(url, "create function note() returns trigger language plpgsql as"
                 " $$ begin insert into public.fired values (new.tick); return null; end $$");
    pg_exec(url, "create trigger note after insert on pgstage.schedule_fire for each row execute function note()");
    pg_exec(url, "create or replace function pgstage.now() returns timestamptz language sql stable as"
                 " $$ select current_setting('test.now')::timestamptz $$");
    pg_exec(url, "do $$ declare anchor timestamptz := (select s.anchor from pgstage.schedule s); t timestamptz;"
                 " latest timestamptz := anchor; begin perform setseed(0.5);"
                 " for i in 1 .. 10000 loop"
                 "   t := anchor + i * interval '1 s' + (random() - 0.5) * interval '100 ms'"
                 "        - case when random() < 0.05 then interval '2 s' else interval '0' end;"
                 "   latest := greatest(latest, t);"
                 "   perform set_config('test.now', t::text, false);"
                 "   perform pgstage.fire_schedules('{1}', 10);"
                 "   if exists (select from pgstage.schedule s where s.next_tick > latest + interval '1 s') then"
                 "     raise exception 'at % the next is %', t, (select next_tick from pgstage.schedule); end if;"
                 "   if i % 20 = 0 then commit; end if;"
                 " end loop;"
                 " perform set_config('test.now', (anchor + interval '10000 s')::text, false);"
                 " perform pgstage.fire_schedules('{1}', 10); end $$");
    cr_expect_eq(pg_int(url, "select count(*) from fired"), 10000);
    cr_expect_eq(pg_int(url, "select count(distinct tick) from fired"), 10000);
    cr_expect_eq(pg_int(url, "select count(*) from pgstage.schedule_fire where outcome <> 'fired'"), 0);
    cr_expect_eq(pg_int(url, "select (next_tick = anchor + interval '10001 s')::int from pgstage.schedule"), 1);
    free(url);
}
