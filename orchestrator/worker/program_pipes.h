/* program_pipes.h - a program that stays, and lines to and from it.
 *
 * Nothing here waits for the program alone: while there is something to write it is read from, and the node is heard. One
 * that never reads, or never stops writing, costs memory up to a limit, and holds nobody up. Thread rule: the main thread.
 */
#ifndef WORKER_PROGRAM_PIPES_H
#define WORKER_PROGRAM_PIPES_H

#include "worker/child.h"

/* Of a line of the program, without its newline. */
enum { PROGRAM_LINE_MAX = 256 * 1024 * 1024 };

struct program {
    pid_t pid;      /* 0: it does not run */
    int pidfd;      /* readable: it has ended */
    int in, out;    /* our ends; -1: closed */
    bool has_ended; /* all that it said is in `said` */
    int reads_after_end;
    bool was_killed; /* by program_end: it did not end of its own */
    struct buf said, unsent;
    size_t taken, searched; /* of `said`: given out as lines; has no newline from `taken` to here */
    size_t sent;            /* of `unsent` */
};

/* `setup`: input, output and error are set here. Errors as of child_start. */
enum status program_start(struct program *program, struct child_setup *setup, struct error *err) MUST_CHECK;

/* Queues a line: what is in `text` is copied, the newline is added. */
void program_say(struct program *program, const struct buf *text);

/* Moves what can be moved; waits at most so long, -1 is without end, for something to move, the program's end, or the node
 * (inbox_notice_fd). */
void program_step(struct program *program, int wait_ms);

/* The next whole line, without its newline, borrowed until program_step. False: there is none yet. */
bool program_take_line(struct program *program, const char **line, size_t *length);
/* What has no newline yet: bytes of it. */
size_t program_unfinished(const struct program *program);

/* Gives it so long to end by itself, with its standard input closed when all is written, then TERM and a second, then KILL;
 * what it says meanwhile is dropped. 0: KILL at once. */
struct child_end program_end(struct program *program, int64_t patience_ms);

#endif
