#include "host_rig.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "support/leaks.h"

struct said said;
int allocations, allocations_alive;
static int fail_from;

static void copy(char *to, size_t size, const char *text, size_t length) {
    cr_assert_lt(length, size);
    cr_assert_eq(text[length], '\0');
    memcpy(to, text, length + 1);
}

static void on_log(void *context, const char *text, size_t length, const char *fields, size_t fields_length) {
    struct said *to = context;
    copy(to->log, sizeof to->log, text, length);
    copy(to->fields, sizeof to->fields, fields != NULL ? fields : "(none)", fields != NULL ? fields_length : 6);
    to->logs++;
}

static void on_progress(void *context, double fraction, const char *text, size_t length) {
    struct said *to = context;
    copy(to->progress, sizeof to->progress, text, length);
    to->fraction = fraction;
    to->progresses++;
}

static bool on_cancelled(void *context) {
    const struct said *to = context;
    return to->cancelled;
}

static bool on_superseded(void *context) {
    const struct said *to = context;
    return to->superseded;
}

static int64_t on_remaining_ms(void *context) {
    const struct said *to = context;
    return to->remaining_ms;
}

static struct pgstage_host_text text_of(const char *text) {
    return (struct pgstage_host_text){text, text == NULL ? 0 : strlen(text)};
}

pgstage_task *new_task(const char *payload, const char *input) {
    return new_task_like(&(struct pgstage_host_run){.pipeline = "library",
                                                    .stage = "extract",
                                                    .key = "a/b",
                                                    .payload = text_of(payload),
                                                    .input = text_of(input),
                                                    .version = 77,
                                                    .attempt = 2});
}

pgstage_task *new_task_like(const struct pgstage_host_run *run) {
    leaks_fail_tests();
    said = (struct said){.remaining_ms = 1234};
    return pgstage_host_task_create(run, &(struct pgstage_host_ops){.log = on_log,
                                                               .progress = on_progress,
                                                               .cancelled = on_cancelled,
                                                               .superseded = on_superseded,
                                                               .remaining_ms = on_remaining_ms,
                                                               .context = &said});
}

static void *allocate(size_t size) {
    if (fail_from >= 0 && allocations >= fail_from) {
        allocations++;
        return NULL;
    }
    allocations++;
    allocations_alive++;
    return malloc(size);
}

static void release(void *memory) {
    allocations_alive -= memory != NULL;
    free(memory);
}

void use_failing_allocator(int fail_at) {
    fail_from = fail_at;
    allocations = allocations_alive = 0;
    pgstage_host_set_allocator(allocate, release);
    json_set_alloc_funcs(allocate, release);
}

void use_ordinary_allocator(void) {
    pgstage_host_set_allocator(NULL, NULL);
    json_set_alloc_funcs(malloc, free);
}
