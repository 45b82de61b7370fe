#include "cli/catalog.h"

#include <stdio.h>
#include <string.h>

#include "cli/nearest.h"
#include "cli/output.h"
#include "sql/statements.h"

enum { PIPELINE, STAGE, CURRENT };
enum { LISTED_MAX = 20 };

static void print_hint(const struct nearest *nearest, const char *introduction, const struct buf *list) {
    if (nearest->best != NULL) {
        fprintf(stderr, "; did you mean '%s'?\n", text_shown(nearest->best));
    } else {
        fprintf(stderr, "; %s %s\n", introduction, list->data);
    }
}

static void add_to_list(struct buf *list, int *count, const char *name) {
    if (*count == LISTED_MAX) {
        buf_append_string(list, ", ...");
    } else if (*count < LISTED_MAX) {
        buf_append_format(list, "%s%s", *count == 0 ? "" : ", ", name);
    }
    (*count)++;
}

static bool has_pipeline(const struct db_result *names, const char *pipeline) {
    for (int i = 0; i < db_rows(names); i++) {
        if (strcmp(db_value(names, i, PIPELINE), pipeline) == 0) {
            return true;
        }
    }
    return false;
}

static enum exit_status no_pipeline(const struct db_result *names, const char *pipeline) {
    struct nearest nearest;
    struct buf list;
    int count = 0;
    nearest_init(&nearest, pipeline);
    buf_init(&list, SIZE_MAX);
    for (int i = 0; i < db_rows(names); i++) {
        const char *name = db_value(names, i, PIPELINE);
        if (i == 0 || strcmp(name, db_value(names, i - 1, PIPELINE)) != 0) {
            nearest_offer(&nearest, name);
            add_to_list(&list, &count, name);
        }
    }
    fprintf(stderr, "pgstage: there is no pipeline '%s'", text_shown(pipeline));
    if (count == 0) {
        fprintf(stderr, ", nor any other; register one: pgstage apply FILE\n");
    } else {
        print_hint(&nearest, "there are", &list);
        fprintf(stderr, "pgstage apply FILE registers that of a file\n");
    }
    nearest_finish(&nearest);
    buf_finish(&list);
    return EXIT_WRONG;
}

static enum exit_status check_stage(const struct db_result *names, const char *pipeline, const char *stage,
                                    bool current) {
    struct nearest nearest;
    struct buf list;
    int count = 0;
    bool found = false;
    nearest_init(&nearest, stage);
    buf_init(&list, SIZE_MAX);
    for (int i = 0; i < db_rows(names); i++) {
        if (strcmp(db_value(names, i, PIPELINE), pipeline) == 0 && !db_is_null(names, i, STAGE)) {
            const char *name = db_value(names, i, STAGE);
            bool counts = !current || db_bool(names, i, CURRENT);
            found = found || (counts && strcmp(name, stage) == 0);
            if (db_bool(names, i, CURRENT)) {
                nearest_offer(&nearest, name);
                add_to_list(&list, &count, name);
            }
        }
    }
    if (!found) {
        fprintf(stderr, "pgstage: pipeline '%s' has no stage '%s'; its stages are %s\n", pipeline, text_shown(stage),
                list.data);
        if (nearest.best != NULL && strcmp(nearest.best, stage) != 0) {
            fprintf(stderr, "did you mean '%s'?\n", nearest.best);
        }
    }
    nearest_finish(&nearest);
    buf_finish(&list);
    return found ? EXIT_OK : EXIT_WRONG;
}

enum exit_status catalog_check(struct db_sync *db, const char *pipeline, const char *stage, bool current) {
    struct db_result *names = NULL;
    struct error err = ERROR_NONE;
    if (sync_run(db, NULL, sql_names.text, 0, NULL, &names, &err) != STATUS_OK) {
        return report_error(&err);
    }
    enum exit_status status = EXIT_OK;
    if (!has_pipeline(names, pipeline)) {
        status = no_pipeline(names, pipeline);
    } else if (stage != NULL) {
        status = check_stage(names, pipeline, stage, current);
    }
    sync_result_free(names);
    return status;
}

enum exit_status catalog_no_task(struct db_sync *db, const char *pipeline, const char *key) {
    enum exit_status status = catalog_check(db, pipeline, NULL, false);
    if (status != EXIT_OK) {
        return status;
    }
    struct db_param params[] = {DB_TEXT(pipeline), DB_TEXT(key)};
    struct db_result *keys = NULL;
    struct error err = ERROR_NONE;
    if (sync_run(db, NULL, sql_near_keys.text, 2, params, &keys, &err) != STATUS_OK) {
        return report_error(&err);
    }
    struct nearest nearest;
    nearest_init(&nearest, key);
    for (int i = 0; i < db_rows(keys); i++) {
        nearest_offer(&nearest, db_value(keys, i, 0));
    }
    fprintf(stderr, "pgstage: pipeline '%s' has no task '%s'; ", pipeline, text_shown(key));
    if (nearest.best != NULL) {
        fprintf(stderr, "did you mean '%s'?\n", text_shown(nearest.best));
    } else {
        fprintf(stderr, "pgstage tasks %s --key PATTERN looks for keys\n", pipeline);
    }
    nearest_finish(&nearest);
    sync_result_free(keys);
    return EXIT_WRONG;
}

enum exit_status catalog_open(const struct args *args, const char *pipeline, const char *stage, struct session *session) {
    enum exit_status status = session_open(args, session);
    if (status == EXIT_OK && pipeline != NULL) {
        status = catalog_check(session->db, pipeline, stage, false);
        if (status != EXIT_OK) {
            session_close(session);
        }
    }
    return status;
}

enum exit_status report_store_error(struct db_sync *db, const char *pipeline, const struct error *err) {
    if (strcmp(err->sqlstate, "P0F02") == 0) {
        enum exit_status status = catalog_check(db, pipeline, NULL, false);
        if (status != EXIT_OK) {
            return status;
        }
        fprintf(stderr, "pgstage: pipeline '%s' has no current definition; make one so: pgstage apply FILE\n", pipeline);
        return EXIT_WRONG;
    }
    return report_error(err);
}
