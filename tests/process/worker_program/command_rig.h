/* command_rig.h - a worker of a `command:` stage: a pipeline's folder, a work folder, and a shell script as its program. */
#ifndef TESTS_PROCESS_WORKER_PROGRAM_COMMAND_RIG_H
#define TESTS_PROCESS_WORKER_PROGRAM_COMMAND_RIG_H

#include "rig.h"

struct command_rig {
    struct rig rig;
    char folder[64], work[64], run[72]; /* WORK/run is the current folder; all are removed by command_finish */
    struct wire_hello hello;   /* of the next start */
    struct wire_bytes arguments[16];
};

/* Makes the folders and a HELLO; arguments up to a NULL. */
void command_prepare(struct command_rig *c, const char *const *arguments);
void command_start(struct command_rig *c);        /* sends HELLO */
void command_open(struct command_rig *c);         /* and wants READY */
/* Of one shell script, run.sh; prepared, and opened. */
void command_open_script(struct command_rig *c, const char *script);
void command_finish(struct command_rig *c);
/* Ends the worker in order: it has lost no memory, and its work folder is empty. */
void command_stop(struct command_rig *c);
/* A file in the pipeline's folder. */
void command_write(const struct command_rig *c, const char *name, const char *text, bool executable);

void command_run(struct command_rig *c, uint64_t run, const char *payload);
/* Wants a failure with that outcome, kind (NULL: none) and message. */
void command_want(struct command_rig *c, uint64_t run, enum wire_outcome outcome, const char *kind, const char *message);
/* Runs one task and wants that of it. */
void command_expect(struct command_rig *c, uint64_t run, const char *payload, const char *output);
/* Reads until "pid N." was printed. */
pid_t command_want_pid(struct command_rig *c);

#endif
