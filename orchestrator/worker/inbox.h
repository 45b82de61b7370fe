/* inbox.h - messages from the node: read by a thread of its own, so that a lease's end, a cancelled
 * task and the node's death are noticed while a handler computes, and so that the node never waits
 * for a handler to read.
 *
 * Thread rule: the main thread alone.
 */
#ifndef WORKER_INBOX_H
#define WORKER_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>

#include "wire/messages.h"

struct job {
    struct wire_run run; /* texts are borrowed from `frame` */
    atomic_bool cancelled, superseded;
    char *frame;
    struct job *next;
};

/* Waits for the HELLO, before inbox_start. The texts in it stay. PROTOCOL: not a HELLO of this
 * release; `err` can be told to the node when `hello->major` is another one. */
enum status inbox_wait_hello(struct wire_hello *hello, struct error *err) MUST_CHECK;

void inbox_start(void);

/* The first job that is not done, and the others of its batch behind it, `count` in all; waits for them. NULL: the node said
 * STOP, and all before it is done. */
struct job *inbox_next(size_t *count);
/* Whether another job waits behind this one. */
bool inbox_has_more(const struct job *job);
/* Ownership: frees the job that is the first. */
void inbox_done(struct job *job);

/* For an engine that waits for something else, too. A descriptor that is readable when anything came that the main thread may
 * want to look at, until inbox_take_notice; what came before the first call is not noticed. */
int inbox_notice_fd(void);
void inbox_take_notice(void);
/* Whether inbox_next would wait. */
bool inbox_is_empty(void);

#endif
