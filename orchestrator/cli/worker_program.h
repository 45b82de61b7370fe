/* worker_program.h - where the program pgstage-worker lies, which runs the stages.
 */
#ifndef CLI_WORKER_PROGRAM_H
#define CLI_WORKER_PROGRAM_H

#include <stddef.h>

#include "cli/command.h"

/* Beside the program (a build tree), or where it is installed: an absolute path. EXIT_WRONG is printed. */
enum exit_status worker_program_find(char *path, size_t size);

#endif
