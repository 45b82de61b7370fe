/* misbehaving.c - handlers that do what no handler should: each must cost its own task, and nothing
 * else. */
#include <errno.h>
#include <fcntl.h>
#include <pgstage/handler.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NODE_FD = 3, NOISE_BYTES = 10 * 1024 * 1024 };

static int64_t payload_number(pgstage_task *task, const char *name, int64_t fallback) {
    const json_t *value = json_object_get(pgstage_payload_json(task), name);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

static pgstage_result crash_segv(pgstage_task *task, void *state) {
    (void)state;
    pgstage_log(task, "about to crash");
    raise(SIGSEGV);
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(crash_segv, .run = crash_segv);

static pgstage_result crash_abort(pgstage_task *task, void *state) {
    (void)task;
    (void)state;
    abort();
}
PGSTAGE_HANDLER(crash_abort, .run = crash_abort);

/* Computes until it is killed. */
static pgstage_result spin(pgstage_task *task, void *state) {
    (void)state;
    pgstage_log(task, "spinning");
    for (volatile unsigned turns = 0;; turns++) {
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(spin, .run = spin);

/* {"ms": N}: uses that much CPU time, then ends. */
static pgstage_result burn(pgstage_task *task, void *state) {
    (void)state;
    clock_t until = clock() + (clock_t)payload_number(task, "ms", 10) * (CLOCKS_PER_SEC / 1000);
    while (clock() < until) {
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(burn, .run = burn);

static void wait_for_ever(void) {
    for (;;) {
        pause();
    }
}

/* Ignores SIGTERM, in itself and in a child that it leaves. The log has the child's process id. */
static pgstage_result hang(pgstage_task *task, void *state) {
    (void)state;
    signal(SIGTERM, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        wait_for_ever();
    }
    pgstage_log(task, "child %ld", (long)child);
    wait_for_ever();
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(hang, .run = hang);

/* Writes to standard output for ever, beside a child that ignores SIGTERM: its node's death may
 * reach it as a SIGPIPE. */
static pgstage_result chatter(pgstage_task *task, void *state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGTERM, SIG_IGN);
        wait_for_ever();
    }
    pgstage_log(task, "child %ld", (long)child);
    while (write(STDOUT_FILENO, "chatter\n", 8) > 0) {
    }
    return pgstage_fail(task, "%s", strerror(errno));
}
PGSTAGE_HANDLER(chatter, .run = chatter);

/* A helper that init starts, and that is there for all runs: each says its number. */
static pgstage_result start_helper(pgstage_worker *worker, void **state) {
    (void)worker;
    static pid_t helper;
    helper = fork();
    if (helper == 0) {
        signal(SIGTERM, SIG_IGN);
        wait_for_ever();
    }
    *state = &helper;
    return PGSTAGE_OK;
}

static pgstage_result name_helper(pgstage_task *task, void *state) {
    const pid_t *helper = state;
    pgstage_log(task, "child %ld", (long)*helper);
    return kill(*helper, 0) == 0 ? PGSTAGE_OK : pgstage_fail(task, "it is not there");
}
PGSTAGE_HANDLER(helper, .run = name_helper, .init = start_helper);

static void write_noise(int fd) {
    static const char noise[] = "noise \xFF\xFE\0 \xE2\x82 \x1B[31m\n";
    size_t left = NOISE_BYTES;
    while (left > 0) {
        size_t length = left < sizeof noise - 1 ? left : sizeof noise - 1;
        ssize_t written = write(fd, noise, length);
        if (written > 0) {
            left -= (size_t)written;
        }
    }
}

/* 10 MB to each of its outputs, of bytes that are no text. */
static pgstage_result noisy(pgstage_task *task, void *state) {
    (void)state;
    write_noise(STDERR_FILENO);
    write_noise(STDOUT_FILENO);
    return pgstage_output(task, json_string("said it all"));
}
PGSTAGE_HANDLER(noisy, .run = noisy);

/* {"max_mb": N}: takes memory, a megabyte at a time, and writes to it; ends at N so that a missing
 * limit is found. */
static pgstage_result alloc(pgstage_task *task, void *state) {
    (void)state;
    int64_t max = payload_number(task, "max_mb", 1024);
    for (int64_t taken = 0; taken < max; taken++) {
        char *memory = malloc(1 << 20);
        if (memory == NULL) {
            return pgstage_fail(task, "no memory after %lld MB", (long long)taken);
        }
        memset(memory, 1, 1 << 20);
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(alloc, .run = alloc);

/* Writes {"bytes": N} to a file that it unlinked. */
static pgstage_result fill_file(pgstage_task *task, void *state) {
    (void)state;
    FILE *file = tmpfile();
    if (file == NULL) {
        return pgstage_fail(task, "tmpfile: %s", strerror(errno));
    }
    int64_t bytes = payload_number(task, "bytes", 1 << 20);
    for (int64_t i = 0; i < bytes; i++) {
        fputc('x', file);
    }
    int failed = fclose(file);
    return failed == 0 ? PGSTAGE_OK : pgstage_fail(task, "%s", strerror(errno));
}
PGSTAGE_HANDLER(fill_file, .run = fill_file);

static pgstage_result exit0(pgstage_task *task, void *state) {
    (void)task;
    (void)state;
    exit(0);
}
PGSTAGE_HANDLER(exit0, .run = exit0);

static pgstage_result exit3(pgstage_task *task, void *state) {
    (void)state;
    pgstage_log(task, "leaving");
    exit(3);
}
PGSTAGE_HANDLER(exit3, .run = exit3);

/* Leaves by exit() when it is cancelled. */
static pgstage_result exit_cancelled(pgstage_task *task, void *state) {
    (void)state;
    const struct timespec step = {.tv_nsec = 1000000};
    pgstage_log(task, "begun");
    while (!pgstage_cancelled(task)) {
        nanosleep(&step, NULL);
    }
    exit(1);
}
PGSTAGE_HANDLER(exit_cancelled, .run = exit_cancelled);

/* Blocks SIGTERM when it is cancelled, as a section that must not be disturbed would, and forgets
 * to undo it. */
static pgstage_result block_cancelled(pgstage_task *task, void *state) {
    (void)state;
    const struct timespec step = {.tv_nsec = 1000000};
    pgstage_log(task, "begun");
    while (!pgstage_cancelled(task)) {
        nanosleep(&step, NULL);
    }
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(block_cancelled, .run = block_cancelled);

static void *exit_from_thread(void *unused) {
    (void)unused;
    exit(5);
}

static pgstage_result exit_thread(pgstage_task *task, void *state) {
    (void)task;
    (void)state;
    pthread_t thread;
    if (pthread_create(&thread, NULL, exit_from_thread, NULL) == 0) {
        pthread_join(thread, NULL);
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(exit_thread, .run = exit_thread);

/* Without exit handlers: nobody in the worker gets to know. */
static pgstage_result exit_now(pgstage_task *task, void *state) {
    (void)task;
    (void)state;
    _exit(0);
}
PGSTAGE_HANDLER(exit_now, .run = exit_now);

/* A forked child that ends by exit(), as many scripts' helpers do, is no business of the worker's.
 */
static pgstage_result child_exit(pgstage_task *task, void *state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return pgstage_output(task, json_integer(status));
}
PGSTAGE_HANDLER(child_exit, .run = child_exit);

/* A forked child that is terminated dies of it, and alone. */
static pgstage_result child_terminated(pgstage_task *task, void *state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        wait_for_ever();
    }
    if (child < 0) {
        return pgstage_fail(task, "fork: %s", strerror(errno)); /* kill(-1) would reach everybody */
    }
    kill(child, SIGTERM);
    int status = -1;
    waitpid(child, &status, 0);
    return pgstage_output(task, json_integer(WIFSIGNALED(status) ? WTERMSIG(status) : -1));
}
PGSTAGE_HANDLER(child_terminated, .run = child_terminated);

static pgstage_result returns_7(pgstage_task *task, void *state) {
    (void)task;
    (void)state;
    return (pgstage_result)7;
}
PGSTAGE_HANDLER(returns_7, .run = returns_7);

/* These two return at once, or with {"stay": 1} never. */
static pgstage_result close_fd3(pgstage_task *task, void *state) {
    (void)state;
    close(NODE_FD);
    if (payload_number(task, "stay", 0) != 0) {
        wait_for_ever();
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(close_fd3, .run = close_fd3);

/* Closes it, and opens {"file": PATH}, which gets its number. */
static pgstage_result replace_fd3(pgstage_task *task, void *state) {
    (void)state;
    const char *file = json_string_value(json_object_get(pgstage_payload_json(task), "file"));
    int fd = open(file, O_RDWR | O_CREAT, 0600);
    dup2(fd, NODE_FD);
    if (payload_number(task, "stay", 0) != 0) {
        wait_for_ever();
    }
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(replace_fd3, .run = replace_fd3);

static pgstage_result bad_frame(pgstage_task *task, void *state) {
    (void)task;
    (void)state;
    ssize_t written = write(NODE_FD, "this is no frame", 16);
    return written == 16 ? PGSTAGE_OK : PGSTAGE_FAIL;
}
PGSTAGE_HANDLER(bad_frame, .run = bad_frame);

/* {"hex": "7b7d"}: gives these bytes as its output. */
static pgstage_result bad_json(pgstage_task *task, void *state) {
    (void)state;
    const char *hex = json_string_value(json_object_get(pgstage_payload_json(task), "hex"));
    char bytes[256];
    size_t length = 0;
    unsigned value;
    while (hex != NULL && length < sizeof bytes && sscanf(hex + 2 * length, "%2x", &value) == 1) {
        bytes[length++] = (char)(unsigned char)value;
    }
    return pgstage_set_output(task, bytes, length) == 0 ? PGSTAGE_OK : PGSTAGE_FAIL;
}
PGSTAGE_HANDLER(bad_json, .run = bad_json);

static pgstage_result never_run(pgstage_task *task, void *state) {
    (void)state;
    return pgstage_fail(task, "never run");
}

static pgstage_result fail_init(pgstage_worker *worker, void **state) {
    (void)state;
    puts("init looks for its model");
    return pgstage_worker_fail(worker, "the model file %s is missing", "x.bin");
}
PGSTAGE_HANDLER(init_fail, .run = never_run, .init = fail_init);

static pgstage_result silent_init(pgstage_worker *worker, void **state) {
    (void)worker;
    (void)state;
    return PGSTAGE_RETRY;
}
PGSTAGE_HANDLER(init_fail_silently, .run = never_run, .init = silent_init);

static pgstage_result exit_init(pgstage_worker *worker, void **state) {
    (void)worker;
    (void)state;
    exit(0);
}
PGSTAGE_HANDLER(init_exit, .run = never_run, .init = exit_init);

static pgstage_result hang_init(pgstage_worker *worker, void **state) {
    (void)worker;
    (void)state;
    puts("init hangs");
    wait_for_ever();
    return PGSTAGE_OK;
}
PGSTAGE_HANDLER(init_hang, .run = never_run, .init = hang_init);
