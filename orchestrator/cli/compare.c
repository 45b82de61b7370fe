/* compare.c - pgstage check --against-db: what registering a file would do, without doing it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/definitions.h"
#include "cli/output.h"
#include "sql/statements.h"

enum { COMPARE_STAGE, COMPARE_FATE, COMPARE_OLD_NAME, COMPARE_UNFINISHED };

static void print_stage(const char *file, const struct db_result *stages, int row) {
    const char *name = db_value(stages, row, COMPARE_STAGE), *fate = db_value(stages, row, COMPARE_FATE);
    int64_t unfinished = db_int64(stages, row, COMPARE_UNFINISHED);
    if (strcmp(fate, "new") == 0) {
        printf("%s:   stage '%s' is new\n", file, name);
    } else if (strcmp(fate, "renamed") == 0) {
        printf("%s:   stage '%s' is called '%s', with %" PRId64 " unfinished task%s\n", file,
               db_value(stages, row, COMPARE_OLD_NAME), name, unfinished, text_plural(unfinished));
    } else if (strcmp(fate, "removed") == 0) {
        printf("%s:   stage '%s' is removed, with %" PRId64 " unfinished task%s\n", file, name, unfinished,
               text_plural(unfinished));
    }
}

static enum exit_status print_outcome(const struct definition *definition, const struct db_result *registered,
                                      const struct db_result *stages) {
    const char *file = text_shown(definition->def->file);
    const char *outcome = db_value(registered, 0, REGISTER_OUTCOME), *detail = db_value(registered, 0, REGISTER_DETAIL);
    bool refused = strcmp(outcome, "refused") == 0, older = strcmp(outcome, "older") == 0;
    printf("%s: against the database: %s%s%s%s\n", file, outcome, *detail == '\0' ? "" : ", ", detail,
           older ? "; pgstage apply makes it the current one, pgstage run does not" : "");
    if (strcmp(outcome, "changed") == 0 || refused) {
        for (int i = 0; i < db_rows(stages); i++) {
            print_stage(file, stages, i);
        }
    }
    return refused || older ? EXIT_REFUSED : EXIT_OK;
}

/* In a transaction that is rolled back: nothing of it stays. */
enum exit_status definition_compare(struct db_sync *db, const struct definition *definition, struct buf *said) {
    struct db_result *stages = NULL, *registered = NULL;
    struct error err = ERROR_NONE, ignored = ERROR_NONE;
    enum status status = sync_script(db, "begin", &err);
    if (status == STATUS_OK) {
        status = definition_send(db, definition->def, DEFINITION_COMPARE, &stages, &err);
        status = status == STATUS_OK ? definition_send(db, definition->def, DEFINITION_RUN, &registered, &err) : status;
        enum status rolled_back = sync_script(db, "rollback", &ignored);
        status = status == STATUS_OK ? rolled_back : status;
    }
    enum exit_status exit_status = EXIT_OK;
    if (status == STATUS_OK) {
        exit_status = print_outcome(definition, registered, stages);
    } else {
        err = err.code == STATUS_OK ? ignored : err;
        buf_append_format(said, "pgstage: %s%s\n", err.text, error_hint(&err));
        exit_status = error_exit_status(&err);
    }
    sync_result_free(stages);
    sync_result_free(registered);
    return exit_status;
}
