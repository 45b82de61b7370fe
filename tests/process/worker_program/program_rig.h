/* program_rig.h - workers with the engine of `worker:`, whose program is a few lines of Python. */
#ifndef TESTS_PROCESS_WORKER_PROGRAM_PROGRAM_RIG_H
#define TESTS_PROCESS_WORKER_PROGRAM_PROGRAM_RIG_H

#include "rig.h"

/* What each script begins with. hear() is the next message, None at the end; say() writes one; ready() does as a good
 * program at its start does. */
#define PROGRAM_BEGIN                                                                                                  \
    "import json, os, resource, signal, sys, time\n"                                                                   \
    "def hear():\n"                                                                                                    \
    "    line = sys.stdin.readline()\n"                                                                                \
    "    return json.loads(line) if line else None\n"                                                                  \
    "def write(text):\n"                                                                                               \
    "    sys.stdout.write(text + '\\n')\n"                                                                             \
    "    sys.stdout.flush()\n"                                                                                         \
    "def say(type, **members):\n"                                                                                      \
    "    write(json.dumps({'type': type, **members}))\n"                                                               \
    "def ready():\n"                                                                                                   \
    "    hello = hear()\n"                                                                                             \
    "    say('ready')\n"                                                                                               \
    "    return hello\n"

/* A HELLO for such a program; borrowed until the next call. */
struct wire_hello program_hello(const char *script);
/* Starts it, and wants READY. */
void program_open(struct rig *rig, const char *script);
/* Starts it, and does not wait. */
void program_begin(struct rig *rig, const char *script);
/* RUNs of one batch, from `first` on; payloads are their numbers. */
void program_run_batch(struct rig *rig, uint64_t first, uint32_t count);
/* Wants a RESULT with that outcome, kind (NULL: none) and message. */
void program_want_end(struct rig *rig, uint64_t run, enum wire_outcome outcome, const char *kind, const char *message);

#endif
