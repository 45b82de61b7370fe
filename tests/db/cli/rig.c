#include "rig.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "support/leaks.h"
#include "support/pg.h"

char *rig_url;
struct db_sync *rig_db;
static char folder[64];
static struct buf logged;

static void on_line(void *context, enum log_level level, const char *line) {
    (void)context;
    (void)level;
    buf_append_format(&logged, "%s\n", line);
}

bool rig_logged(const char *text) {
    return strstr(logged.data, text) != NULL;
}

void rig_begin(void) {
    struct error err = ERROR_NONE;
    leaks_fail_tests();
    snprintf(folder, sizeof folder, "/tmp/pgstage-parts-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
    buf_init(&logged, SIZE_MAX);
    log_set_sink(on_line, NULL);
    rig_url = pg_new_migrated_database();
    cr_assert_eq(sync_open(rig_url, "test", &rig_db, &err), STATUS_OK, "%s", err.text);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void rig_end(void) {
    sync_close(rig_db);
    free(rig_url);
    buf_finish(&logged);
    cr_assert_eq(chdir("/"), 0);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void rig_write(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    cr_assert_not_null(file, "%s", name);
    fputs(text, file);
    fclose(file);
}

struct args rig_args(int count, char **positional, const char *option, const char *value) {
    struct args args = {.command = &command_run_pipelines, .count = count, .positional = positional};
    for (int i = 0; option != NULL && args.command->options[i].name != NULL; i++) {
        if (strcmp(args.command->options[i].name, option) == 0) {
            args.values[i] = value;
            args.given[0].option = i;
            args.given[0].value = value;
            args.given_count = 1;
        }
    }
    return args;
}

void rig_apply(const char *file, struct definition *definition) {
    struct buf said;
    buf_init(&said, SIZE_MAX);
    cr_assert_eq(definition_load(file, definition, &said), EXIT_OK, "%s", said.data);
    cr_assert_eq(definition_register(rig_db, definition, DEFINITION_APPLY, &said), EXIT_OK, "%s", said.data);
    buf_finish(&said);
}
