/* result_json.h - a result as a program writes it: {"outcome","output","message","sql","route","finish","snooze_ms"}. Thread
 * rule: the main thread. */
#ifndef WORKER_RESULT_JSON_H
#define WORKER_RESULT_JSON_H

#include "worker/engine.h"
#include "worker/json_text.h"

/* Puts what the object (json_text_check found it good) says into the task, and sets the task's outcome. Members that it does
 * not know are ignored. What cannot be used - a member of another type, an output that cannot be stored - fails the task,
 * with a sentence. */
void result_json_apply(struct json_span object, struct engine_task *task);

/* Keeps a text, whatever is in it, as the reason of a failure. */
void result_json_set_message(struct engine_task *task, struct json_span string);

#endif
