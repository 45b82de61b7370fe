#include "base/environment.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* LC_ALL, LC_CTYPE ... besides. The last is for those who debug a worker. */
static const char *const passed[] = {
    "PATH",
    "LANG",
    "TZ",
    "HOME",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "PGSTAGE_WORKER_CORES",
#ifdef __SANITIZE_ADDRESS__
    "ASAN_OPTIONS",
    "LSAN_OPTIONS",
    "UBSAN_OPTIONS",
#endif
};
enum { PASSED_COUNT = sizeof passed / sizeof passed[0] };

/* NAME, or NAME=VALUE. */
static bool has_name(const char *entry, const char *name, size_t length) {
    return strncmp(entry, name, length) == 0 && (entry[length] == '=' || entry[length] == '\0');
}

static bool is_passed(const char *variable) {
    if (strncmp(variable, "LC_", 3) == 0) {
        return true;
    }
    for (int i = 0; i < PASSED_COUNT; i++) {
        if (has_name(variable, passed[i], strlen(passed[i]))) {
            return true;
        }
    }
    return false;
}

static const char *find_own(const char *name) {
    for (char **own = environ; own != NULL && *own != NULL; own++) {
        if (has_name(*own, name, strlen(name)) && strchr(*own, '=') != NULL) {
            return *own;
        }
    }
    return NULL;
}

/* Takes the place of an earlier one of that name. */
static void put(char **built, int *count, char *variable) {
    size_t length = strcspn(variable, "=");
    for (int i = 0; i < *count; i++) {
        if (has_name(built[i], variable, length)) {
            built[i] = variable;
            return;
        }
    }
    built[(*count)++] = variable;
}

static int count_of(const char *const *list) {
    int count = 0;
    while (list != NULL && list[count] != NULL) {
        count++;
    }
    return count;
}

char **environment_build(struct arena *arena, const struct environment_spec *spec) {
    enum { OURS = 3 };
    int room = count_of((const char *const *)environ) + OURS + count_of(spec->env) + 1, count = 0;
    char **built = arena_alloc(arena, (size_t)room * sizeof *built);
    for (char **own = environ; own != NULL && *own != NULL; own++) {
        if (is_passed(*own)) {
            put(built, &count, arena_copy_string(arena, *own));
        }
    }
    if (spec->work != NULL) {
        put(built, &count, arena_format(arena, "TMPDIR=%s/run", spec->work));
    }
    put(built, &count, arena_format(arena, "PGSTAGE_PIPELINE=%s", spec->pipeline));
    put(built, &count, arena_format(arena, "PGSTAGE_STAGE=%s", spec->stage));
    for (int i = 0; spec->env != NULL && spec->env[i] != NULL; i++) {
        const char *listed = strchr(spec->env[i], '=') != NULL ? spec->env[i] : find_own(spec->env[i]);
        if (listed != NULL) {
            put(built, &count, arena_copy_string(arena, listed));
        }
    }
    return built;
}
