/* confirm.h - a yes for what touches many tasks: by --yes, or by an answer where somebody can give one.
 */
#ifndef CLI_CONFIRM_H
#define CLI_CONFIRM_H

#include "cli/command.h"

/* Without --yes asks `question`, or prints `refusal` where nobody can answer. EXIT_REFUSED: nothing is to be done. */
enum exit_status confirm(const struct args *args, const char *question, const char *refusal);

#endif
