/* command_output.h - what a program writes: always read, however much it is, so that it never waits for a reader.
 *
 * Standard output is kept up to a limit. Standard error goes on to this process's own at once; of it only the end is kept.
 * Thread rule: the main thread.
 */
#ifndef WORKER_COMMAND_OUTPUT_H
#define WORKER_COMMAND_OUTPUT_H

#include "base/buf.h"
#include "worker/child.h"

#define COMMAND_OUTPUT_MAX ((size_t)256 * 1024 * 1024)

struct command_output {
    int out, error; /* our ends; -1: closed, or `out` never was */
    struct buf text;
    size_t length; /* of standard output, with what was not kept */
    struct buf error_end;
};

/* Makes the pipes and sets the other ends in `setup`. Without `keep` standard output is this process's own. */
enum status command_output_open(struct command_output *output, bool keep, struct child_setup *setup,
                                struct error *err) MUST_CHECK;
/* After the child was started, or was not: the other ends. */
void command_output_close_child(const struct command_output *output, const struct child_setup *setup);
/* Reads until the child has ended, reaps it, and reads what is left. UNAVAILABLE: it cannot be watched, and was killed. */
enum status command_output_read(struct command_output *output, pid_t pid, struct child_end *end,
                                struct error *err) MUST_CHECK;
/* The end of what standard output had is only log: writes it to this process's own. */
void command_output_pass_on(const struct command_output *output);
/* Appends the last line of standard error that is not blank; nothing when there is none. */
void command_output_last_line(const struct command_output *output, struct buf *line);
void command_output_finish(struct command_output *output);

#endif
