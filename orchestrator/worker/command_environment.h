/* command_environment.h - the variables that a program gets: this process's own, and what the task is. Thread rule: the main
 * thread. */
#ifndef WORKER_COMMAND_ENVIRONMENT_H
#define WORKER_COMMAND_ENVIRONMENT_H

#include "wire/messages.h"

/* `run` says nothing in a batch. `task_file` may be NULL: there is none. Ownership: to be freed with the other one. */
char **command_environment_make(const struct wire_hello *hello, const struct wire_run *run, const char *result_file,
                                const char *task_file);
void command_environment_free(char **environment);

#endif
