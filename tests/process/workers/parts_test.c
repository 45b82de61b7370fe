/* parts_test.c - the pure parts: brakes, depth, verdicts, and the keeping of output. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/utf8.h"
#include "workers/brakes.h"
#include "workers/depth.h"
#include "workers/output.h"
#include "workers/throttle.h"
#include "workers/verdict.h"

TestSuite(brakes, .timeout = 10);
TestSuite(depth, .timeout = 10);
TestSuite(verdict, .timeout = 10);
TestSuite(output, .timeout = 10);
TestSuite(throttle, .timeout = 10);

/* ---- brakes --------------------------------------------------------------------------------- */

static struct random_seeded seeded;
static struct random_ops chance;
static struct brakes brakes;

static void reset_brakes(void) {
    const struct backoff policy = {BACKOFF_EXPONENTIAL, 100, 30000, 20};
    chance = random_from_seed(&seeded, 1);
    brakes_init(&brakes, &policy, 1000);
}

static int64_t die(enum brakes_cause cause, int64_t started_ms, int64_t now_ms) {
    brakes_note_death(&brakes, cause, started_ms, now_ms, &chance);
    return brakes.next_start_ms - now_ms;
}

Test(brakes, delays_double_and_the_eleventh_death_parks) {
    reset_brakes();
    int64_t now_ms = 1000000, waited_ms = 0;
    for (int deaths = 1; deaths <= 11; deaths++) {
        cr_assert_not(brakes.parked);
        int64_t delay_ms = die(BRAKES_OWN, now_ms - 20, now_ms);
        int64_t plain_ms = deaths > 9 ? 30000 : INT64_C(100) << (deaths - 1);
        int64_t least_ms = plain_ms * 8 / 10 > 980 ? plain_ms * 8 / 10 : 980;
        cr_assert_geq(delay_ms, least_ms, "death %d: %ld", deaths, (long)delay_ms);
        cr_assert_leq(delay_ms, plain_ms * 12 / 10 + 980);
        now_ms += delay_ms;
        waited_ms += delay_ms;
    }
    cr_assert(brakes.parked);
    cr_assert_lt(waited_ms, BRAKES_WINDOW_MS);
}

Test(brakes, a_short_life_does_not_forget) {
    reset_brakes();
    int64_t now_ms = 0;
    int deaths = 0;
    while (!brakes.parked && deaths < 20) {
        brakes_note_ready(&brakes, now_ms);
        now_ms += 10000;
        die(BRAKES_OWN, now_ms - 9000, now_ms);
        deaths++;
    }
    cr_assert_eq(deaths, 11);
}

Test(brakes, deaths_that_are_rare_do_not_park) {
    reset_brakes();
    for (int64_t i = 1; i <= 100; i++) {
        cr_assert_leq(die(BRAKES_OWN, (i - 1) * 61000, i * 61000), 60000);
        cr_assert_not(brakes.parked);
    }
}

Test(brakes, the_third_refusal_parks) {
    reset_brakes();
    die(BRAKES_REFUSED, 0, 10);
    die(BRAKES_REFUSED, 1000, 1010);
    cr_assert_not(brakes.parked);
    die(BRAKES_REFUSED, 3000, 3010);
    cr_assert(brakes.parked);
}

Test(brakes, deaths_under_tasks_never_park) {
    reset_brakes();
    for (int i = 1; i <= 5; i++) {
        cr_assert_leq(die(BRAKES_TASK, 900, 1000), 0);
    }
    cr_assert_gt(die(BRAKES_TASK, 900, 1000), 0);
    for (int i = 0; i < 1000; i++) {
        die(BRAKES_TASK, 900, 1000);
    }
    cr_assert_not(brakes.parked);
    cr_assert_leq(brakes.next_start_ms, 1000 + 30000);
    brakes_note_result(&brakes);
    cr_assert_leq(die(BRAKES_TASK, 99000, 100000), 0);
}

Test(brakes, what_we_ended_costs_nothing) {
    reset_brakes();
    for (int i = 0; i < 100; i++) {
        cr_assert_leq(die(BRAKES_NONE, 900, 1000), 0);
    }
    cr_assert_not(brakes.failing);
}

Test(brakes, failing_until_one_is_ready) {
    reset_brakes();
    die(BRAKES_OWN, 0, 10);
    cr_assert(brakes.failing);
    brakes_note_ready(&brakes, 20);
    cr_assert_not(brakes.failing);
}

/* In a pool that is well, workers come one after the other without a pause. */
Test(brakes, after_a_death_of_its_own_the_next_start_waits_for_the_one_before) {
    reset_brakes();
    brakes_note_ready(&brakes, 10);
    cr_assert_leq(brakes.next_start_ms, 10);
    die(BRAKES_OWN, 0, 100);
    brakes_note_ready(&brakes, 90000);
    cr_assert_eq(brakes.next_start_ms, 91000);
    brakes_note_ready(&brakes, 100 + BRAKES_WINDOW_MS);
    cr_assert_eq(brakes.next_start_ms, 91000);
}

/* ---- depth ---------------------------------------------------------------------------------- */

static int depth_after(int64_t run_us, int samples) {
    struct depth depth = {0};
    for (int i = 0; i < samples; i++) {
        depth_note(&depth, run_us);
    }
    return depth_limit(&depth);
}

Test(depth, follows_the_mean) {
    cr_assert_eq(depth_after(0, 0), 1);
    cr_assert_eq(depth_after(10, DEPTH_SAMPLES_MIN - 1), 1);
    cr_assert_eq(depth_after(0, DEPTH_SAMPLES_MIN), 64);
    cr_assert_eq(depth_after(100, DEPTH_SAMPLES_MIN), 64);
    cr_assert_eq(depth_after(1000, 100), 25);
    cr_assert_eq(depth_after(4999, 100), 5);
    cr_assert_eq(depth_after(5000, 100), 1);
    cr_assert_eq(depth_after(INT64_MAX, 100), 1);
    cr_assert_eq(depth_after(-5, 100), 64);
}

Test(depth, forgets_a_long_run_slowly) {
    struct depth depth = {0};
    for (int i = 0; i < 100; i++) {
        depth_note(&depth, 100);
    }
    depth_note(&depth, 60000000);
    cr_assert_eq(depth_limit(&depth), 1);
    for (int i = 0; i < 20; i++) {
        depth_note(&depth, 100);
    }
    cr_assert_eq(depth_limit(&depth), 1);
    for (int i = 0; i < 100; i++) {
        depth_note(&depth, 100);
    }
    cr_assert_gt(depth_limit(&depth), 1);
}

/* ---- verdicts ------------------------------------------------------------------------------- */

Test(verdict, every_signal_has_one) {
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL,  SIGFPE,
                                  SIGABRT, SIGSYS, SIGXCPU, SIGXFSZ};
    for (int number = 1; number <= 64; number++) {
        bool is_crash = false;
        for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
            is_crash = is_crash || crashes[i] == number;
        }
        struct verdict verdict = verdict_of_exit(0, number, "answering", false);
        cr_assert_eq(verdict.end, is_crash ? POOL_CRASH : POOL_LOST, "signal %d", number);
        cr_assert_str_not_empty(verdict.text);
    }
    cr_assert_str_eq(verdict_of_exit(0, 34, "", false).text, "killed by signal 34 (unnamed)");
    cr_assert_str_eq(verdict_of_exit(255, 0, "answering", false).text,
                     "exited with status 255 before answering");
}

/* ---- output --------------------------------------------------------------------------------- */

static struct output output;
static struct log_limit limit;
static int lines_logged;

static void on_line(void *context, enum log_level level, const char *line) {
    (void)context;
    (void)level;
    lines_logged += strstr(line, "worker.output ") != NULL;
}

static void reset_output(void) {
    log_set_sink(on_line, NULL);
    output_init(&output, &(struct output_source){
                             .pipeline = "p", .stage = "s", .worker = 1, .limit = &limit});
}

static void feed(enum output_stream stream, const char *text) {
    output_feed(&output, stream, text, strlen(text), 1000);
}

static const char *tail(void) {
    static struct buf out;
    buf_finish(&out);
    buf_init(&out, OUTPUT_TAIL_BYTES);
    output_tail(&output, &out);
    cr_assert_not(out.overflow);
    cr_assert(utf8_is_valid(out.data, out.length));
    return out.data;
}

static const char *last_line(void) {
    static struct buf out;
    buf_finish(&out);
    buf_init(&out, OUTPUT_TAIL_BYTES);
    output_last_line(&output, &out);
    return out.data;
}

Test(output, lines_of_two_streams_stay_whole) {
    reset_output();
    cr_assert_str_eq(tail(), "");
    cr_assert_str_eq(last_line(), "");
    feed(OUTPUT_STDOUT, "one ");
    feed(OUTPUT_STDERR, "two\nthr");
    feed(OUTPUT_STDOUT, "half\n");
    feed(OUTPUT_STDERR, "ee\n");
    cr_assert_str_eq(tail(), "two\none half\nthree");
    cr_assert_str_eq(last_line(), "three");
    feed(OUTPUT_STDOUT, "open");
    cr_assert_str_eq(tail(), "two\none half\nthree\nopen");
    output_end(&output, 1000);
    cr_assert_str_eq(last_line(), "open");
    cr_assert_eq(lines_logged, 4);
    output_forget(&output);
    cr_assert_str_eq(tail(), "");
}

Test(output, keeps_the_end_and_begins_with_a_whole_line) {
    reset_output();
    char line[64];
    for (int i = 0; i < 1000; i++) {
        snprintf(line, sizeof line, "line %d of many\n", i);
        feed(OUTPUT_STDERR, line);
    }
    const char *text = tail();
    cr_assert_eq(strncmp(text, "line ", 5), 0);
    cr_assert_leq(strlen(text), OUTPUT_TAIL_BYTES);
    cr_assert_geq(strlen(text), OUTPUT_TAIL_BYTES - 32);
    cr_assert_str_eq(last_line(), "line 999 of many");
    cr_assert_eq(lines_logged, OUTPUT_LINES_PER_MINUTE);
    cr_assert_eq(limit.suppressed, 1000 - OUTPUT_LINES_PER_MINUTE);
}

Test(output, bytes_that_are_no_text) {
    reset_output();
    char bytes[3 * OUTPUT_TAIL_BYTES];
    memset(bytes, 0xFF, sizeof bytes);
    output_feed(&output, OUTPUT_STDOUT, bytes, sizeof bytes, 1000);
    cr_assert_leq(strlen(tail()), OUTPUT_TAIL_BYTES);
    memset(bytes, 0, sizeof bytes);
    output_feed(&output, OUTPUT_STDERR, bytes, sizeof bytes, 1000);
    tail();
    /* A character of four bytes, cut wherever the ring begins. */
    for (size_t i = 0; i + 4 <= sizeof bytes; i += 4) {
        memcpy(bytes + i, "\xF0\x9F\x98\x80", 4);
    }
    for (size_t offset = 0; offset < 4; offset++) {
        output_feed(&output, OUTPUT_STDOUT, bytes + offset, sizeof bytes - offset, 1000);
        tail();
    }
}

Test(output, chunks_of_any_size_give_the_same) {
    char text[6000];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = i % 97 == 96 ? '\n' : (char)('a' + i % 26);
    }
    reset_output();
    output_feed(&output, OUTPUT_STDOUT, text, sizeof text, 1000);
    char whole[OUTPUT_TAIL_BYTES + 1];
    strcpy(whole, tail());
    for (size_t size = 1; size < 300; size += 7) {
        reset_output();
        for (size_t at = 0; at < sizeof text; at += size) {
            size_t left = sizeof text - at;
            output_feed(&output, OUTPUT_STDOUT, text + at, left < size ? left : size, 1000);
        }
        cr_assert_str_eq(tail(), whole);
    }
}

/* ---- throttle ------------------------------------------------------------------------------- */

enum { IN_PIPE_BYTES = 1024 * 1024, READ_BYTES = 64 * 1024, IN_ONE_GO_BYTES = 256 * 1024 };

struct throttle_rig {
    uv_loop_t loop;
    struct throttle throttle;
    struct throttled throttled;
    uv_pipe_t pipe;
    size_t read;
    bool at_end;
};

static void on_throttle_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room) {
    (void)handle, (void)suggested;
    static char bytes[READ_BYTES];
    *room = (uv_buf_t){.base = bytes, .len = sizeof bytes};
}

static void on_throttle_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *room) {
    (void)room;
    struct throttle_rig *rig = stream->data;
    if (count < 0) {
        rig->at_end = true;
        throttled_stop(&rig->throttled);
    } else if (count > 0) {
        rig->read += (size_t)count;
        throttled_took(&rig->throttled, (size_t)count);
    }
}

/* A pipe that holds 1 MB, which libuv would read in one turn. */
static void throttle_rig_open(struct throttle_rig *rig) {
    *rig = (struct throttle_rig){.at_end = false};
    uv_loop_init(&rig->loop);
    throttle_init(&rig->throttle, &rig->loop);
    int fds[2];
    cr_assert_eq(pipe(fds), 0);
    cr_assert_eq(fcntl(fds[1], F_SETPIPE_SZ, IN_PIPE_BYTES), IN_PIPE_BYTES);
    static const char bytes[IN_PIPE_BYTES];
    cr_assert_eq(write(fds[1], bytes, sizeof bytes), IN_PIPE_BYTES);
    close(fds[1]);
    uv_pipe_init(&rig->loop, &rig->pipe, 0);
    rig->pipe.data = rig;
    cr_assert_eq(uv_pipe_open(&rig->pipe, fds[0]), 0);
    throttled_start(&rig->throttled, &rig->throttle, (uv_stream_t *)&rig->pipe, on_throttle_room, on_throttle_read);
}

static void on_throttle_closed(void *context) {
    (void)context;
}

static void throttle_rig_close(struct throttle_rig *rig) {
    struct close_group closing;
    throttled_stop(&rig->throttled);
    close_group_begin(&closing, on_throttle_closed, NULL);
    throttle_close(&rig->throttle, &closing);
    close_group_add(&closing, (uv_handle_t *)&rig->pipe);
    close_group_end(&closing);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&rig->loop), 0);
}

Test(throttle, a_turn_takes_a_part_and_all_is_read_in_the_end) {
    struct throttle_rig rig;
    throttle_rig_open(&rig);
    while (!rig.at_end) {
        size_t before = rig.read;
        uv_run(&rig.loop, UV_RUN_ONCE);
        cr_assert_leq(rig.read - before, (size_t)IN_ONE_GO_BYTES);
    }
    cr_assert_eq(rig.read, (size_t)IN_PIPE_BYTES);
    throttle_rig_close(&rig);
}

Test(throttle, what_is_held_may_be_closed) {
    struct throttle_rig rig;
    throttle_rig_open(&rig);
    while (rig.read == 0) {
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(rig.read, (size_t)IN_ONE_GO_BYTES);
    throttle_rig_close(&rig);
    cr_assert_eq(rig.read, (size_t)IN_ONE_GO_BYTES);
}
