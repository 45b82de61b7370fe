/* rig.c - the loop, the recording, and the checks at the end. */
#include "rig.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/memory.h"
#include "support/leaks.h"

/* ---- what the pool tells -------------------------------------------------------------------- */

static void copy_text(char *to, size_t size, struct pool_text from) {
    cr_assert_lt(from.length, size, "a text of %zu bytes", from.length);
    if (from.data != NULL) {
        memcpy(to, from.data, from.length);
    }
    to[from.length] = '\0';
}

static void on_ended(void *context, struct pool *pool, uint64_t run,
                     const struct pool_outcome *outcome) {
    struct rig *rig = context;
    cr_assert_eq(pool, rig->pool);
    cr_assert_null(rig_end_of(rig, run), "run %d ended twice", (int)run);
    cr_assert_lt(rig->end_count, RIG_ENDS_MAX);
    struct rig_end *end = &rig->ends[rig->end_count++];
    *end = (struct rig_end){.run = run,
                            .end = outcome->end,
                            .run_us = outcome->run_us,
                            .statement_count = outcome->statement_count,
                            .at_ms = clock_now_ms(&clock_boottime)};
    snprintf(end->kind, sizeof end->kind, "%s", outcome->kind != NULL ? outcome->kind : "");
    copy_text(end->message, sizeof end->message, outcome->message);
    copy_text(end->last_output, sizeof end->last_output, outcome->last_output);
    end->output_length = outcome->output.length;
    end->output = mem_copy_bytes(outcome->output.data, outcome->output.length);
    for (int i = 0; i < outcome->statement_count; i++) {
        const struct pool_statement *statement = &outcome->statements[i];
        size_t used = strlen(end->statements);
        snprintf(end->statements + used, sizeof end->statements - used, "%.*s(",
                 (int)statement->sql.length, statement->sql.data);
        for (int p = 0; p < statement->parameter_count; p++) {
            used = strlen(end->statements);
            snprintf(end->statements + used, sizeof end->statements - used, "%.*s,",
                     (int)statement->parameters[p].length,
                     statement->parameters[p].data != NULL ? statement->parameters[p].data : "");
        }
        strncat(end->statements, ")", sizeof end->statements - strlen(end->statements) - 1);
    }
    if (rig->on_ended != NULL) {
        rig->on_ended(rig, end);
    }
}

static void on_changed(void *context, struct pool *pool) {
    struct rig *rig = context;
    cr_assert_eq(pool, rig->pool);
    rig->changed_count++;
}

static void on_closed(void *context, struct pool *pool) {
    struct rig *rig = context;
    cr_assert_eq(pool, rig->pool);
    rig->closed_count++;
}

static void on_progress(void *context, struct pool *pool, uint64_t run, double fraction,
                        const char *text) {
    struct rig *rig = context;
    cr_assert_eq(pool, rig->pool);
    cr_assert_null(rig_end_of(rig, run));
    rig->progress_count++;
    rig->fraction = fraction;
    snprintf(rig->progress_text, sizeof rig->progress_text, "%s", text);
}

static void on_log_line(void *context, enum log_level level, const char *line) {
    struct rig *rig = context;
    (void)level;
    size_t length = strlen(line);
    if (rig->log_length + length + 2 < sizeof rig->log) {
        memcpy(rig->log + rig->log_length, line, length);
        rig->log_length += length;
        rig->log[rig->log_length++] = '\n';
        rig->log[rig->log_length] = '\0';
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

static int64_t rig_now(void *context) {
    const struct rig *rig = context;
    return rig->frozen_ms != 0 ? rig->frozen_ms : clock_now_ms(&clock_boottime);
}

void rig_freeze(struct rig *rig) {
    rig->frozen_ms = clock_now_ms(&clock_boottime);
}

void rig_thaw(struct rig *rig) {
    rig->frozen_ms = 0;
}

struct rig *rig_create(const char *handler_name) {
    struct rig *rig = mem_alloc(sizeof *rig);
    leaks_fail_tests();
    signal(SIGPIPE, SIG_IGN);
    rig->clock = (struct clock_ops){rig_now, rig};
    rig->options = (struct workers_options){.program = FAKE_WORKER,
                                            .lock_fd = -1,
                                            .clock = &rig->clock,
                                            .random = &random_system,
                                            .restart = {BACKOFF_CONSTANT, 1, 1, 0},
                                            .short_life_pause_ms = 1};
    rig->spec = (struct pool_spec){.pipeline = "library",
                                   .stage = "extract",
                                   .handler_file = "/handlers.so",
                                   .handler_name = handler_name,
                                   .config = "{}",
                                   .workers = 1,
                                   .grace_ms = 5000};
    rig->next_run = 1;
    uv_loop_init(&rig->loop);
    log_set_sink(on_log_line, rig);
    return rig;
}

void rig_open(struct rig *rig) {
    struct error err = ERROR_NONE;
    const struct pool_events events = {.ended = on_ended,
                                       .changed = on_changed,
                                       .closed = on_closed,
                                       .progress = on_progress,
                                       .context = rig};
    cr_assert_eq(workers_create(&rig->loop, &rig->options, &rig->ops, &rig->workers, &err),
                 STATUS_OK, "%s", err.text);
    if (rig->before_pool != NULL) {
        cr_assert_eq(rig->before_pool(rig->options.program), 0);
    }
    cr_assert_eq(rig->ops.open(rig->ops.context, &rig->spec, &events, &rig->pool, &err), STATUS_OK,
                 "%s", err.text);
}

void rig_open_up(struct rig *rig) {
    rig_open(rig);
    rig_wait_room(rig, rig->spec.workers);
}

static bool is_closed(const struct rig *rig) {
    return rig->closed_count > 0;
}

static bool is_destroyed(const struct rig *rig) {
    return rig->is_destroyed;
}

static void on_destroyed(void *context) {
    struct rig *rig = context;
    rig->is_destroyed = true;
}

void rig_finish(struct rig *rig) {
    if (rig->closed_count == 0) {
        rig->ops.close(rig->pool);
    }
    rig_wait(rig, is_closed);
    workers_destroy(rig->workers, on_destroyed, rig);
    rig_wait(rig, is_destroyed);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    cr_assert_eq(rig->closed_count, 1);
    cr_assert_eq((uint64_t)rig->end_count, rig->next_run - 1, "%d of %d runs ended", rig->end_count,
                 (int)rig->next_run - 1);

    /* No child is left, neither running nor a zombie. */
    siginfo_t info;
    cr_assert(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == -1 && errno == ECHILD);
    cr_assert_eq(uv_loop_close(&rig->loop), 0);
    log_set_sink(NULL, NULL);
    for (int i = 0; i < rig->end_count; i++) {
        free(rig->ends[i].output);
    }
    free(rig);
}

/* ---- waiting -------------------------------------------------------------------------------- */

static void on_alarm(uv_timer_t *timer) {
    *(bool *)timer->data = true;
}

static void on_alarm_closed(uv_handle_t *handle) {
    handle->data = NULL;
}

/* True when the condition came true in time. */
static bool wait_for(struct rig *rig, bool (*is_true)(const struct rig *rig), int64_t wait_ms) {
    bool is_late = false;
    uv_timer_t alarm;
    uv_timer_init(&rig->loop, &alarm);
    alarm.data = &is_late;
    uv_update_time(&rig->loop);
    uv_timer_start(&alarm, on_alarm, (uint64_t)wait_ms, 0);
    bool is_met;
    while (!(is_met = is_true(rig)) && !is_late) {
        uv_run(&rig->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&alarm, on_alarm_closed);
    while (alarm.data != NULL) {
        uv_run(&rig->loop, UV_RUN_NOWAIT);
    }
    return is_met;
}

void rig_wait(struct rig *rig, bool (*is_true)(const struct rig *rig)) {
    cr_assert(wait_for(rig, is_true, RIG_WAIT_MS), "it did not happen; the log:\n%s", rig->log);
}

static bool never(const struct rig *rig) {
    (void)rig;
    return false;
}

void rig_linger(struct rig *rig, int64_t ms) {
    wait_for(rig, never, ms);
}

static int wanted; /* by the conditions below */

static bool has_ends(const struct rig *rig) {
    return rig->end_count >= wanted;
}

static bool has_room(const struct rig *rig) {
    return rig->ops.room(rig->pool) >= wanted;
}

void rig_wait_ends(struct rig *rig, int count) {
    wanted = count;
    rig_wait(rig, has_ends);
}

void rig_wait_room(struct rig *rig, int room) {
    wanted = room;
    rig_wait(rig, has_room);
}

static const char *wanted_text;

static bool log_has_text(const struct rig *rig) {
    return rig_count_in_log(rig, wanted_text) >= wanted;
}

void rig_wait_log(struct rig *rig, const char *text, int count) {
    wanted_text = text;
    wanted = count;
    rig_wait(rig, log_has_text);
}

/* ---- runs ----------------------------------------------------------------------------------- */

static enum status start(struct rig *rig, struct pool_task task, const char *key,
                         struct error *err) {
    int ends_before = rig->end_count;
    task.run = rig->next_run;
    task.key = (struct pool_text){key, strlen(key)};
    enum status code = rig->ops.start(rig->pool, &task, err);
    cr_assert_eq(rig->end_count, ends_before, "an event inside of start");
    if (code == STATUS_OK) {
        rig->next_run++;
    }
    return code;
}

uint64_t rig_start_task(struct rig *rig, struct pool_task task, const char *key) {
    struct error err = ERROR_NONE;
    cr_assert_eq(start(rig, task, key, &err), STATUS_OK, "%s", err.text);
    return rig->next_run - 1;
}

uint64_t rig_start(struct rig *rig, const char *key) {
    return rig_start_task(rig, (struct pool_task){.version = 7, .attempt = 1}, key);
}

enum status rig_try(struct rig *rig, const char *key, bool alone) {
    struct error err = ERROR_NONE;
    enum status code = start(rig, (struct pool_task){.attempt = 1, .alone = alone}, key, &err);
    cr_assert_eq(code, err.code);
    return code;
}

const struct rig_end *rig_end_of(const struct rig *rig, uint64_t run) {
    for (int i = 0; i < rig->end_count; i++) {
        if (rig->ends[i].run == run) {
            return &rig->ends[i];
        }
    }
    return NULL;
}

static uint64_t awaited;

static bool awaited_is_over(const struct rig *rig) {
    return rig_end_of(rig, awaited) != NULL;
}

const struct rig_end *rig_run(struct rig *rig, const char *key) {
    rig_wait_room(rig, 1);
    uint64_t run = rig_start(rig, key);
    awaited = run;
    rig_wait(rig, awaited_is_over);
    return rig_end_of(rig, run);
}

/* ---- looking -------------------------------------------------------------------------------- */

int64_t rig_number(const struct rig_end *end) {
    cr_assert_eq(end->end, POOL_OK, "%s", end->message);
    return strtoll(end->output, NULL, 10);
}

pid_t rig_pid_in(const char *text, const char *name) {
    const char *at = strstr(text, name);
    cr_assert_not_null(at, "no %s in: %s", name, text);
    return (pid_t)strtol(at + strlen(name) + 1, NULL, 10);
}

/* A zombie does not live. */
bool rig_process_lives(pid_t pid) {
    char path[64], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) {
        state = 'Z';
    }
    fclose(file);
    return state != 'Z' && state != 'X';
}

int rig_count_fds(void) {
    int count = 0;
    DIR *fds = opendir("/proc/self/fd");
    while (readdir(fds) != NULL) {
        count++;
    }
    closedir(fds);
    return count;
}

static void add_queued(uv_handle_t *handle, void *total) {
    if (handle->type == UV_NAMED_PIPE) {
        *(size_t *)total += uv_stream_get_write_queue_size((uv_stream_t *)handle);
    }
}

size_t rig_queued_bytes(struct rig *rig) {
    size_t total = 0;
    uv_walk(&rig->loop, add_queued, &total);
    return total;
}

int rig_count_in_log(const struct rig *rig, const char *text) {
    int count = 0;
    for (const char *at = rig->log; (at = strstr(at, text)) != NULL; at += strlen(text)) {
        count++;
    }
    return count;
}
