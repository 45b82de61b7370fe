#include "worker/command_environment.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

enum { OWN_COUNT = 7 };

static const char *const own_names[] = {"PGSTAGE_PIPELINE=", "PGSTAGE_STAGE=",       "PGSTAGE_KEY=",      "PGSTAGE_VERSION=",
                                        "PGSTAGE_ATTEMPT=",  "PGSTAGE_RESULT_FILE=", "PGSTAGE_TASK_FILE="};
_Static_assert(sizeof own_names / sizeof own_names[0] == OWN_COUNT, "one each");

static bool is_own(const char *entry) {
    for (size_t i = 0; i < OWN_COUNT; i++) {
        if (strncmp(entry, own_names[i], strlen(own_names[i])) == 0) {
            return true;
        }
    }
    return false;
}

char **command_environment_make(const struct wire_hello *hello, const struct wire_run *run, const char *result_file,
                                const char *task_file) {
    size_t count = 0, inherited = 0;
    while (environ[inherited] != NULL) {
        inherited++;
    }
    char **list = mem_alloc((inherited + OWN_COUNT + 1) * sizeof *list);
    list[count++] = mem_format("PGSTAGE_PIPELINE=%s", hello->pipeline.data);
    list[count++] = mem_format("PGSTAGE_STAGE=%s", hello->stage.data);
    list[count++] = mem_format("PGSTAGE_RESULT_FILE=%s", result_file);
    if (task_file != NULL) {
        list[count++] = mem_format("PGSTAGE_TASK_FILE=%s", task_file);
    }
    if (hello->batch_size == 0) {
        list[count++] = mem_format("PGSTAGE_KEY=%s", run->key.data);
        list[count++] = mem_format("PGSTAGE_VERSION=%" PRId64, run->version);
        list[count++] = mem_format("PGSTAGE_ATTEMPT=%d", (int)run->attempt);
    }
    for (size_t i = 0; i < inherited; i++) {
        if (!is_own(environ[i])) {
            list[count++] = mem_copy_string(environ[i]);
        }
    }
    return list;
}

void command_environment_free(char **environment) {
    for (size_t i = 0; environment[i] != NULL; i++) {
        free(environment[i]);
    }
    free(environment);
}
