/* command_result.h - what a program's end, its output and its result file say about the tasks. Thread rule: the main thread. */
#ifndef WORKER_COMMAND_RESULT_H
#define WORKER_COMMAND_RESULT_H

#include "worker/command_output.h"

/* Success is exit status 0 and output that is whole; all else fails. `result_file`: read when it is there. */
void command_result_judge(const struct wire_hello *hello, const struct child_end *end,
                          const struct command_output *output, const char *result_file, struct engine_call *call);

#endif
