/* program_answers.h - what a line of the program means for the tasks in hand. Thread rule: the main thread. */
#ifndef WORKER_PROGRAM_ANSWERS_H
#define WORKER_PROGRAM_ANSWERS_H

#include "worker/engine.h"

/* The tasks in hand. Zeroed: none. */
struct answers {
    struct engine_call *call;
    bool is_batch;
    uint64_t first_id; /* of the task, or the batch */
    bool *answered;    /* of each task */
    size_t left;       /* so many are not */
};

enum answers_said { ANSWERS_GO_ON, ANSWERS_READY, ANSWERS_REFUSED };

/* One line, without its newline: a result is put into its task, a log line is sent on. `nobody` is what log lines belong to
 * that name no task in hand. PROTOCOL: it is a breach of the protocol, and `err` says which. REFUSED: `err` has the reason. */
enum status answers_take(struct answers *answers, pgstage_task *nobody, const char *line, size_t length,
                         enum answers_said *said, struct error *err) MUST_CHECK;

#endif
