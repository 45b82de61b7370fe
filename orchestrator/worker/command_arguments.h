/* command_arguments.h - the arguments of a stage's program, with placeholders for what a task has.
 *
 * Each argument stays one argument, whatever a document puts into it: nothing here passes a shell, and nothing that comes
 * from a document becomes an option. Thread rule: none.
 */
#ifndef WORKER_COMMAND_ARGUMENTS_H
#define WORKER_COMMAND_ARGUMENTS_H

#include "base/error.h"
#include "wire/messages.h"

struct command_arguments {
    struct command_argument *list;
    size_t count;
    char *program;      /* the first of them, which has no placeholder of a task */
    bool has_task_file; /* {task} is among them */
};

/* Reads what HELLO has: replaces what is the same for every task, and finds files of the pipeline's folder. INVALID: a
 * placeholder that is not known, or that says nothing in this stage. `parsed` is to be finished in any case. */
enum status command_arguments_parse(const struct wire_hello *hello, struct command_arguments *parsed,
                                    struct error *err) MUST_CHECK;
void command_arguments_finish(struct command_arguments *parsed);

/* The arguments for a run, NULL-terminated, to be freed with command_arguments_free. `task_file` is what {task} stands for.
 * INVALID: the task has no such value, or one that no argument may have; with a sentence. */
enum status command_arguments_fill(const struct command_arguments *parsed, const struct wire_run *run,
                                   const char *task_file, char ***arguments, struct error *err) MUST_CHECK;
void command_arguments_free(char **arguments);

#endif
