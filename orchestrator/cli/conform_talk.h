/* conform_talk.h - speaks the worker protocol (docs/worker-protocol.md) with a program under test, as a node does, and says
 * in words what was wrong with an answer.
 *
 * What returns bool is false when the check has failed: `expected` and `came` say why then. Thread rule: the main thread.
 */
#ifndef CLI_CONFORM_TALK_H
#define CLI_CONFORM_TALK_H

#include <jansson.h>

#include "cli/conform_program.h"

enum { TALK_READY_MS = 30000, TALK_END_MS = 8000, TALK_ID_SIZE = 24, TALK_WORDS_SIZE = 400 };

struct talk {
    char *const *argv;
    int batch;          /* 0: tasks come one by one */
    int64_t timeout_ms; /* of an answer */
    struct program program;
    bool silent; /* nothing came in time */
    unsigned last_id;
    char batch_id[TALK_ID_SIZE]; /* of the batch in hand; "" when there is none */
    json_t *open;                /* ids in hand, an object */
    json_t *notes;               /* progress and log messages since the last talk_send..., an array */
    struct buf line;
    char expected[TALK_WORDS_SIZE], came[TALK_WORDS_SIZE];
};

void talk_init(struct talk *talk, char *const *argv, int batch, int64_t timeout_ms);
void talk_finish(struct talk *talk);

/* Starts a fresh program (the one before is killed), says hello with that `with` (JSON text) and members of any kind behind
 * it (",\"a\":1" or ""), and wants it ready. */
bool talk_start(struct talk *talk, const char *with, const char *members);
/* The same, without reading an answer. */
bool talk_hello(struct talk *talk, const char *with, const char *members);

struct talk_task {
    char id[TALK_ID_SIZE]; /* "": the next number, which is set */
    const char *payload;   /* JSON text */
    const char *members;   /* in place of the usual ones behind `payload`; NULL: those */
};

/* Sends tasks: one as it is, or all as one batch. `before`: lines to be written ahead of it at once, or "". */
bool talk_send(struct talk *talk, struct talk_task *tasks, int count, const char *before);
bool talk_tell(struct talk *talk, const char *id, bool cancelled, bool superseded);

/* The next result: new reference; NULL when the check has failed. It is one for an id in hand, which is not any more. */
json_t *talk_result(struct talk *talk);
/* Sends one task, and wants a result with these members (JSON text of an object; "outcome" is "ok" when it is not there) and
 * no others. In batch mode it is a batch of one. */
bool talk_expect(struct talk *talk, const char *payload, const char *members);
/* The same of a result that came. */
bool talk_compare(struct talk *talk, const json_t *result, const char *members);

/* The next message but log: new reference; NULL: none, with the reason. */
json_t *talk_message(struct talk *talk, int64_t deadline_ms);

/* Wants the end of the program with exit status 0 in time, or of whatever kind, and nothing but well-formed lines before
 * it. */
bool talk_end(struct talk *talk, bool wants_status_0);

/* Keeps both and returns false. */
bool talk_fail(struct talk *talk, const char *expected, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Parses JSON in which whole numbers of more than 15 digits become texts with a mark, so that none is changed. NULL: none. */
json_t *talk_parse(const char *text, size_t length);

#endif
