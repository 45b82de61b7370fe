#include "cli/worker_program.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum exit_status worker_program_find(char *path, size_t size) {
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = '\0';
        *strrchr(self, '/') = '\0';
        const char *const places[] = {PGSTAGE_LIBEXEC_RELATIVE, ".", "../worker"};
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            char candidate[PATH_MAX + 64], resolved[PATH_MAX];
            snprintf(candidate, sizeof candidate, "%s/%s/pgstage-worker", self, places[i]);
            if (access(candidate, X_OK) == 0 && realpath(candidate, resolved) != NULL) {
                snprintf(path, size, "%s", resolved);
                return EXIT_OK;
            }
        }
    }
    fprintf(stderr, "pgstage: the program pgstage-worker is not beside pgstage: install both\n");
    return EXIT_WRONG;
}
