/* submit.h - what the two forms of pgstage submit share: one document, and JSON lines.
 */
#ifndef CLI_SUBMIT_H
#define CLI_SUBMIT_H

#include "cli/command.h"

enum { PAYLOAD_MAX = 128 << 20 };

/* Reads args' --from. */
enum exit_status submit_lines(const struct args *args, struct db_sync *db);

#endif
