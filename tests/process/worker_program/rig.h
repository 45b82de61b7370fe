/* rig.h - a node of a few lines: starts the real worker program and talks with it over a
 * socketpair.
 *
 * Every wait has a deadline and fails the test when it passes. What the worker prints is read while
 * anything is waited for, as a node does.
 */
#ifndef TESTS_PROCESS_WORKER_PROGRAM_RIG_H
#define TESTS_PROCESS_WORKER_PROGRAM_RIG_H

#include <stdbool.h>
#include <sys/types.h>

#include "wire/messages.h"

#define HANDLERS TEST_BINARY_DIR "/tests/handlers/test_handlers.so"
#define ABI_HANDLERS TEST_BINARY_DIR "/tests/handlers/abi_handlers.so"

enum { DEADLINE_MS = 60000 };

/* A process and the moment it ended, whoever its parent is. */
struct watched {
    pid_t pid;
    int pidfd;
};

struct watched watch_process(pid_t pid);
/* False when it still lives after that time. */
bool ended_within(struct watched process, int64_t ms);

struct rig {
    bool said_last; /* it begins nothing more */
    uint16_t minor; /* of the HELLO that it said */
    pid_t pid;
    int node;       /* our end of the frames; -1: closed */
    int outputs[2]; /* our ends of its standard output and error; -1: at end of file */
    struct watched process;
    struct buf in;      /* frames not taken yet */
    size_t taken;       /* of `in`, by the frames that rig_next returned */
    struct buf printed; /* both outputs together */
    struct buf logged;  /* texts of LOG and NOTE frames, a line each; fields behind them */
    double fraction;    /* of the last PROGRESS, and how many came */
    int progress_count;
};

/* How to start one that is unlike a node's. */
struct rig_setup {
    const char *parent;  /* NULL: our process id */
    bool without_socket; /* descriptor 3 is /dev/null */
    int lock_fd;         /* becomes descriptor 4; 0: none */
    int foreign_fd;      /* inherited, too; 0: none */
};

void rig_start(struct rig *rig);
void rig_start_like(struct rig *rig, const struct rig_setup *setup);
/* Takes over a worker that another process started. */
void rig_adopt(struct rig *rig, pid_t pid, int node);
void rig_finish(struct rig *rig); /* KILLs what is left of it */

/* Sends HELLO for a handler of test_handlers.so, and wants READY. */
void rig_open(struct rig *rig, const char *handler);
struct wire_hello rig_hello(const char *file, const char *handler);
void rig_say_hello(struct rig *rig, const struct wire_hello *hello);
void rig_want_ready(struct rig *rig);
void rig_send(struct rig *rig,
              const struct buf *frames); /* meanwhile the worker is not read from */
void rig_send_raw(struct rig *rig, const char *bytes, size_t length);

/* RUN for the key "doc" at attempt 1; `payload` NULL: absent. */
void rig_run(struct rig *rig, uint64_t run, const char *payload);
void rig_send_run(struct rig *rig, const struct wire_run *run);
void rig_tell(struct rig *rig, uint64_t run, bool cancelled, bool superseded);
void rig_beat(struct rig *rig, int64_t lease_end_ms);
void rig_stop(struct rig *rig);

/* The next frame but LOG, NOTE and PROGRESS, which are collected. Borrowed until the next call. False:
 * end of file. */
bool rig_next(struct rig *rig, struct wire_frame *frame);
/* Wants a RESULT of that run; wire_result_finish is the caller's. */
void rig_want_result(struct rig *rig, uint64_t run, struct wire_result *result);
/* Wants success with that output; NULL: none. */
void rig_want_output(struct rig *rig, uint64_t run, const char *output);
void rig_want_failure(struct rig *rig, uint64_t run, enum wire_outcome outcome,
                      const char *message);
/* Wants a REFUSED, and exit status 3. */
void rig_want_refused(struct rig *rig, const char *reason);
/* Reads until the log, or what was printed, contains it. */
void rig_want_logged(struct rig *rig, const char *text);
void rig_want_printed(struct rig *rig, const char *text);
/* The process id in the log line "child PID". */
struct watched rig_want_child(struct rig *rig);
/* The same behind another word. */
pid_t rig_want_pid(struct rig *rig, const char *before);
struct watched rig_want_process(struct rig *rig, const char *before);

/* Waits until it ended; the status as of waitpid. */
int rig_wait(struct rig *rig);
void rig_want_exit(struct rig *rig, int status);
void rig_want_signal(struct rig *rig, int signal);

int64_t now_ms(void);

#endif
