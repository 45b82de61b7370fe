#include "cli/confirm.h"

#include <stdio.h>
#include <unistd.h>

enum exit_status confirm(const struct args *args, const char *question, const char *refusal) {
    if (args_has(args, "yes")) {
        return EXIT_OK;
    }
    if (isatty(STDIN_FILENO) != 1 || isatty(STDERR_FILENO) != 1) {
        fprintf(stderr, "pgstage: %s\n", refusal);
        return EXIT_REFUSED;
    }
    fprintf(stderr, "%s [y/N] ", question);
    char answer[16] = "";
    if (fgets(answer, sizeof answer, stdin) == NULL || (answer[0] != 'y' && answer[0] != 'Y')) {
        fprintf(stderr, "nothing was changed\n");
        return EXIT_REFUSED;
    }
    return EXIT_OK;
}
