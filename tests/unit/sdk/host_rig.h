/* host_rig.h - a host of a few lines: what a handler said and was told is kept here. */
#ifndef TESTS_UNIT_SDK_HOST_RIG_H
#define TESTS_UNIT_SDK_HOST_RIG_H

#include "host.h"

struct said {
    char log[16384], progress[4096];
    char fields[PGSTAGE_HOST_FIELDS_MAX + 1]; /* of the last line; "(none)" */
    double fraction;
    int logs, progresses;
    bool cancelled, superseded;
    int64_t remaining_ms;
};

extern struct said said;

/* A task with these texts (NULL: absent), forgetting what was said before. */
pgstage_task *new_task(const char *payload, const char *input);
/* With all that a host can say. */
pgstage_task *new_task_like(const struct pgstage_host_run *run);

/* Allocation that fails from the given call on; -1: never. Counts the calls and what is not
 * released. Also jansson's. */
void use_failing_allocator(int fail_at);
void use_ordinary_allocator(void);
extern int allocations, allocations_alive;

#endif
