/* conform_program.h - a worker under test, on two pipes: lines to it, lines from it.
 *
 * Every wait has a deadline, and while a line is written what the program says is read: one that does not read, or does
 * not stop writing, holds nobody up. Its standard error is ours. It is found, and has arguments, an environment and a folder,
 * as in a stage of a pipeline in the current folder; and what it started goes with it, daemons too. Thread rule: the main thread.
 */
#ifndef CLI_CONFORM_PROGRAM_H
#define CLI_CONFORM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

struct program {
    pid_t pid; /* also of its process group; 0: none */
    int in, out; /* our ends; -1: closed */
    struct buf said; /* read, and not taken yet */
    size_t searched; /* so much of it has no newline */
    char *folder; /* its own; NULL: none */
    bool is_open; /* there is something to end, close or free */
};

/* Once, before the first: whatever its descendants leave is this process's to end, which it also does when it is itself
 * interrupted or terminated. It must have no other children. */
void program_take_over(void);

/* A zeroed struct is a program that does not run. Errors: NOT_FOUND and others, with a sentence. */
enum status program_start(struct program *program, char *const *argv, struct error *err) MUST_CHECK;
void program_kill(struct program *program); /* with all that it started, and its folder; no-op when it does not run */

/* False: it did not take all of it in time, or closed its standard input. */
bool program_write(struct program *program, const char *bytes, size_t length, int64_t deadline_ms);
void program_close_input(struct program *program);

/* `line` is set to the next one, without its newline. */
enum program_read { PROGRAM_LINE, PROGRAM_END, PROGRAM_SILENT, PROGRAM_FLOOD };
enum program_read program_read_line(struct program *program, struct buf *line, int64_t deadline_ms);

/* Waits for its end, while what it writes is kept. False: it lives on. `status` is as of waitpid. */
bool program_wait(struct program *program, int *status, int64_t deadline_ms);

/* Units: ms of the clock that deadlines are on. */
int64_t program_now_ms(void);

#endif
