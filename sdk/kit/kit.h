/* kit.h - what is inside a pgstage_test, and what the files of the kit know of each other. */
#ifndef PGSTAGE_KIT_KIT_H
#define PGSTAGE_KIT_KIT_H

#include <stdatomic.h>
#include <stdnoreturn.h>

#include "host.h"
#include "pgstage/test.h"

struct kit_line {
    char *text, *fields;   /* fields NULL: none */
    json_t *parsed_fields; /* NULL: not asked for yet */
};

struct kit_report {
    double fraction;
    char *text;
};

struct kit_input {
    char *stage, *json;
};

struct kit_task {
    pgstage_test *test;

    /* As it was set up. NULL: absent. */
    char *key, *payload, *input;
    struct kit_input *inputs;
    size_t input_count;
    int64_t version, remaining_ms;
    int attempt;
    bool has_progress;
    double progress;
    char *progress_text;

    /* Of the last run. */
    pgstage_task *task; /* NULL: none */
    char *inputs_text;
    bool has_ended;
    pgstage_result result;
    char returned[80]; /* the sentence about a value that is no pgstage_result; else "" */
    struct kit_line *lines;
    struct kit_report *reports;
    int line_count, report_count;
    json_t *output_json; /* NULL: not asked for yet */
};

struct pgstage_test {
    struct pgstage_handler handler;
    char *pipeline, *stage, *with, *folder;

    pgstage_worker *worker; /* NULL: not started */
    char *worker_folder;
    void *state;
    char *start_message; /* why init failed; NULL: it did not */

    struct kit_task **tasks;
    size_t task_count, selected;

    unsigned events; /* to happen at that call; 0: none */
    int at_call;
    atomic_uint happened;
    atomic_int calls;
    const char *function; /* where they happened */

    char injected[128], problem[256];
};

/* "pgstage test: ..." on standard error, and the end of the process. */
noreturn void kit_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* These end the process when there is no memory. */
void *kit_allocate(size_t size); /* zeroed */
char *kit_copy(const char *text); /* NULL: NULL */
char *kit_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Room for one more element behind `count` of them. */
void *kit_grow(void *array, size_t count, size_t size);

struct kit_task *kit_task_create(pgstage_test *test);
void kit_task_destroy(struct kit_task *task);
struct kit_task *kit_selected(const pgstage_test *test);

/* Forgets what the last run left; kit_forget_parsed only what was parsed to look at it. */
void kit_forget_run(pgstage_test *test);
void kit_forget_parsed(pgstage_test *test);

/* A worker's life with one run in it. False: init failed. */
bool kit_run_afresh(pgstage_test *test);

/* Units: bytes that this process has allocated and not freed. */
long long kit_memory_in_use(void);

#endif
