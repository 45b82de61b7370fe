/* submit.h - the parts of pgstage submit: one document, JSON lines, and the wait for one document's end.
 */
#ifndef CLI_SUBMIT_H
#define CLI_SUBMIT_H

#include "cli/command.h"

enum { PAYLOAD_MAX = 128 << 20 };

/* Reads args' --from. */
enum exit_status submit_lines(const struct args *args, struct db_sync *db);

/* Waits until that version of the document, or a newer one, is at its end, and prints what its last stage returned. */
enum exit_status submit_wait(const struct args *args, struct session *session, int64_t version);

/* A period of a task's own: a duration from one second to 52 weeks, or "none" (0). */
#define PERIOD_FORM "a duration from 1s to 52w, like 6h, or none"
bool submit_read_period(const char *text, int64_t *ms);

#endif
