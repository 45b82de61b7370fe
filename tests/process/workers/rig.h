/* rig.h - one pool of fake workers on a loop of its own, with all that it told. For the tests of
 * this folder.
 *
 * Waiting is by condition and deadline; nothing sleeps. rig_finish checks what every test has to
 * leave behind: no process, no descriptor, no event too many.
 */
#ifndef TEST_WORKERS_RIG_H
#define TEST_WORKERS_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "workers/workers.h"

enum { RIG_ENDS_MAX = 2048, RIG_WAIT_MS = 20000 };

/* One `ended` event, copied. */
struct rig_end {
    uint64_t run;
    enum pool_end end;
    int64_t run_us;
    char kind[16]; /* "" for NULL */
    char message[9000], last_output[5000];
    char *output;
    size_t output_length;
    int statement_count, parameter_count;
    char statements[200];
    int64_t at_ms;
};

struct rig {
    uv_loop_t loop;
    struct clock_ops clock;
    int64_t frozen_ms; /* 0: the clock runs */
    struct workers_options options;
    struct pool_spec spec;
    struct workers *workers;
    struct workers_ops ops;
    struct pool *pool;

    struct rig_end ends[RIG_ENDS_MAX];
    int end_count;
    int changed_count, closed_count, progress_count;
    double fraction;
    char progress_text[600];
    bool is_destroyed;
    uint64_t next_run;

    /* Called with the program's path between the making of workers and pool, when set. */
    int (*before_pool)(const char *program);
    /* Called in `ended`, when set. */
    void (*on_ended)(struct rig *rig, const struct rig_end *end);

    char log[1 << 20]; /* all lines from info up */
    size_t log_length;
};

/* A zeroed struct becomes a rig with defaults that a test may change before rig_open. */
struct rig *rig_create(const char *handler_name);
void rig_open(struct rig *rig);
/* Opens and waits until `spec.workers` places are free. */
void rig_open_up(struct rig *rig);
/* Closes pool and workers, checks, frees. */
void rig_finish(struct rig *rig);

/* Runs the loop until it is true; the test fails when that takes longer than RIG_WAIT_MS. */
void rig_wait(struct rig *rig, bool (*is_true)(const struct rig *rig));
void rig_wait_ends(struct rig *rig, int count);
void rig_wait_room(struct rig *rig, int room);
/* Until the log holds the text that often. */
void rig_wait_log(struct rig *rig, const char *text, int count);
/* Runs the loop for as long as nothing can be awaited: to see that something does not happen. */
void rig_linger(struct rig *rig, int64_t ms);

/* For the workers' clock no time passes in between: a busy machine cannot make runs look long. */
void rig_freeze(struct rig *rig);
void rig_thaw(struct rig *rig);

uint64_t rig_start(struct rig *rig, const char *key);
uint64_t rig_start_task(struct rig *rig, struct pool_task task, const char *key);
enum status rig_try(struct rig *rig, const char *key, bool alone);
/* Starts, waits for its end. */
const struct rig_end *rig_run(struct rig *rig, const char *key);
const struct rig_end *rig_end_of(const struct rig *rig, uint64_t run); /* NULL: not over */

int64_t rig_number(const struct rig_end *end);        /* its output as a number */
pid_t rig_pid_in(const char *text, const char *name); /* "name=PID" */
bool rig_process_lives(pid_t pid);
int rig_count_fds(void);
size_t rig_queued_bytes(struct rig *rig); /* to all workers, not yet written */
int rig_count_in_log(const struct rig *rig, const char *text);

#endif
