/* batches.c - handlers of stages with `batch:`: one that a single task can spoil for all, and one whose calls cost the same
 * however many tasks they have. */
#include <pgstage/handler.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { LEAK_BYTES = 300 * 1024 * 1024 };

static void die_of(int number) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(number, SIG_DFL);
    raise(number);
}

static void leak(void) {
    static void *volatile kept;
    kept = malloc(LEAK_BYTES);
    if (kept != NULL) {
        memset(kept, 1, LEAK_BYTES);
    }
}

/* {"spoil": WHAT} is done to the whole batch, before anything else. False: it fails. */
static pgstage_result be_spoiled(pgstage_task *task) {
    const char *what = json_string_value(json_object_get(pgstage_payload_json(task), "spoil"));
    if (what == NULL) {
        return PGSTAGE_OK;
    }
    if (strcmp(what, "segv") == 0) {
        die_of(SIGSEGV);
    } else if (strcmp(what, "kill") == 0) {
        kill(getpid(), SIGKILL);
    } else if (strcmp(what, "hang") == 0) {
        for (;;) {
            pause();
        }
    } else if (strcmp(what, "leave") == 0) {
        _exit(0);
    } else if (strcmp(what, "leak") == 0) {
        leak();
        return PGSTAGE_OK;
    }
    return pgstage_fail(task, "%s spoils it", pgstage_key(task));
}

/* Output {"key", "of"}: its own key, and how many were in its batch. {"sql": true} queues a statement, {"route": NAME}
 * routes, {"fail": true} fails this task alone. */
static pgstage_result take(pgstage_task *task, size_t count) {
    const json_t *payload = pgstage_payload_json(task);
    const char *key = pgstage_key(task), *route = json_string_value(json_object_get(payload, "route"));
    if (json_is_true(json_object_get(payload, "fail"))) {
        return pgstage_fail(task, "%s alone", key);
    }
    if (json_is_true(json_object_get(payload, "sql")) &&
        pgstage_sql(task, "insert into public.seen values ($1)", 1, (const char *[]){key}) != 0) {
        return PGSTAGE_FAIL;
    }
    pgstage_result result =
        pgstage_output(task, json_pack("{s:s, s:i}", "key", key, "of", (int)count));
    return result == PGSTAGE_OK && route != NULL ? pgstage_route(task, route) : result;
}

static pgstage_result spoiled(pgstage_task *const *tasks, size_t count, pgstage_result *results, void *state) {
    (void)state;
    pgstage_log(tasks[0], "a call with %d", (int)count);
    for (size_t i = 0; i < count; i++) {
        pgstage_result result = be_spoiled(tasks[i]);
        if (result != PGSTAGE_OK) {
            return result;
        }
    }
    for (size_t i = 0; i < count; i++) {
        results[i] = take(tasks[i], count);
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(spoiled, .run_batch = spoiled);

/* 20 ms a call, as a model or a service takes that is asked for one text or for many. */
static void call_the_model(void) {
    const struct timespec time = {.tv_nsec = 20 * 1000 * 1000};
    nanosleep(&time, NULL);
}

static pgstage_result embed_one(pgstage_task *task, void *state) {
    (void)state;
    call_the_model();
    return take(task, 1);
}

static pgstage_result embed(pgstage_task *const *tasks, size_t count, pgstage_result *results, void *state) {
    (void)state;
    call_the_model();
    for (size_t i = 0; i < count; i++) {
        results[i] = take(tasks[i], count);
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(embed, .run = embed_one, .run_batch = embed);
