/* status.h - the codes that every fallible function returns.
 *
 * Retry policy is a function of the code, in one place (status_is_transient). UNCERTAIN means that a commit was sent
 * and its answer did not arrive: it is resolved by sending an idempotent statement again, never by guessing.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stdbool.h>

enum status {
    STATUS_OK = 0,
    STATUS_AGAIN,       /* nothing wrong: try later */
    STATUS_INVALID,     /* the input is wrong: file, argument, frame, row */
    STATUS_NOT_FOUND,   /* the thing that was named does not exist */
    STATUS_CONFLICT,    /* a fence is not held, or a choice is needed */
    STATUS_TIMEOUT,     /* a limit of time was reached */
    STATUS_UNAVAILABLE, /* the database or a process cannot be reached now */
    STATUS_UNCERTAIN,   /* sent, and the outcome is not known */
    STATUS_PROTOCOL,    /* the peer does not speak our protocol */
    STATUS_LIMIT,       /* a named limit was exceeded */
    STATUS_INTERNAL,    /* a fault of our own */
};

#define MUST_CHECK __attribute__((warn_unused_result))

const char *status_name(enum status code);

/* True when the same request may succeed later without anybody changing it. */
bool status_is_transient(enum status code);

#endif
