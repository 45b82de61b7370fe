/* schedule.c - pgstage schedule: lists the schedules, pauses one, lets it go on, or fires it now. */
#include <stdio.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/json_write.h"
#include "cli/nearest.h"
#include "cli/output.h"
#include "sql/statements.h"

enum { LISTED_PIPELINE, LISTED_NAME, LISTED_SPEC, LISTED_ZONE, LISTED_DO, LISTED_PAUSED, LISTED_NEXT, LISTED_LAST,
       LISTED_OUTCOME, LISTED_TASK, LISTED_ERROR, LISTED_OVERDUE };
enum { FIRED_TICK, FIRED_OUTCOME, FIRED_TASK, FIRED_ERROR };

/* ---- list --------------------------------------------------------------------------------------------------------- */

static void add_as_json(struct buf *out, const struct db_result *rows, int row) {
    json_begin(out, NULL, '{');
    for (int column = 0; column < db_columns(rows); column++) {
        if (column == LISTED_PAUSED || column == LISTED_OVERDUE) {
            json_add_bool(out, db_column_name(rows, column), !db_is_null(rows, row, column) && db_bool(rows, row, column));
        } else {
            json_add_text(out, db_column_name(rows, column), db_is_null(rows, row, column) ? NULL : db_value(rows, row, column));
        }
    }
    json_end(out, '}');
    buf_append_char(out, '\n');
}

/* Two texts as one cell. */
static void add_pair(struct table *table, const char *a, const char *between, const char *b) {
    struct buf cell;
    buf_init(&cell, SIZE_MAX);
    buf_append_format(&cell, "%s%s%s", a, *b == '\0' ? "" : between, b);
    table_add(table, text_shown(cell.data));
    buf_finish(&cell);
}

static void add_time(struct table *table, const char *iso, const char *note, const char *otherwise) {
    struct buf cell;
    buf_init(&cell, SIZE_MAX);
    if (*iso != '\0') {
        text_time(&cell, iso);
        buf_append_string(&cell, note);
    }
    table_add(table, *iso != '\0' ? cell.data : otherwise);
    buf_finish(&cell);
}

static void add_as_row(struct table *table, const struct db_result *rows, int row) {
    add_pair(table, db_value(rows, row, LISTED_PIPELINE), "/", db_value(rows, row, LISTED_NAME));
    add_pair(table, db_value(rows, row, LISTED_SPEC), " ", db_value(rows, row, LISTED_ZONE));
    table_add(table, db_value(rows, row, LISTED_DO));
    bool overdue = !db_is_null(rows, row, LISTED_OVERDUE) && db_bool(rows, row, LISTED_OVERDUE);
    add_time(table, db_value(rows, row, LISTED_NEXT), overdue ? " (overdue)" : "",
             db_bool(rows, row, LISTED_PAUSED) ? "paused" : "never");
    add_time(table, db_value(rows, row, LISTED_LAST), "", "");
    add_pair(table, db_value(rows, row, LISTED_OUTCOME), ": ", db_value(rows, row, LISTED_ERROR));
}

static enum exit_status print_list(const struct args *args, const struct db_result *rows) {
    static const struct table_column columns[] = {
        {"SCHEDULE", false}, {"WHEN", false}, {"DO", false}, {"NEXT", false}, {"LAST", false}, {"OUTCOME", false},
    };
    struct table table;
    struct buf out;
    buf_init(&out, SIZE_MAX);
    table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (int row = 0; row < db_rows(rows); row++) {
        if (args_has(args, "json")) {
            add_as_json(&out, rows, row);
        } else {
            add_as_row(&table, rows, row);
        }
    }
    table_print(&table, &out);
    output_open();
    output_put(&out);
    table_finish(&table);
    buf_finish(&out);
    if (db_rows(rows) == 0 && !args_has(args, "json")) {
        fprintf(stderr, "no schedules\n");
    }
    return output_finish(EXIT_OK);
}

static enum status fetch(struct db_sync *db, const char *pipeline, struct db_result **rows, struct error *err) {
    struct db_param params[] = {{.data = pipeline, .length = pipeline == NULL ? 0 : strlen(pipeline)}};
    return sync_run(db, NULL, sql_schedules.text, 1, params, rows, err);
}

static enum exit_status list(const struct args *args, struct db_sync *db, const char *pipeline) {
    struct db_result *rows = NULL;
    struct error err = ERROR_NONE;
    enum exit_status status = pipeline == NULL ? EXIT_OK : catalog_check(db, pipeline, NULL, false);
    if (status == EXIT_OK && fetch(db, pipeline, &rows, &err) != STATUS_OK) {
        status = report_error(&err);
    }
    if (status == EXIT_OK) {
        status = print_list(args, rows);
    }
    sync_result_free(rows);
    return status;
}

/* ---- one schedule ------------------------------------------------------------------------------------------------- */

static enum exit_status not_found(struct db_sync *db, const char *pipeline, const char *name) {
    enum exit_status status = catalog_check(db, pipeline, NULL, false);
    struct db_result *rows = NULL;
    struct error err = ERROR_NONE;
    if (status != EXIT_OK) {
        return status;
    }
    if (fetch(db, pipeline, &rows, &err) != STATUS_OK) {
        return report_error(&err);
    }
    struct nearest nearest;
    nearest_init(&nearest, name);
    for (int row = 0; row < db_rows(rows); row++) {
        nearest_offer(&nearest, db_value(rows, row, LISTED_NAME));
    }
    fprintf(stderr, "pgstage: pipeline '%s' has no schedule '%s'; ", pipeline, text_shown(name));
    if (nearest.best != NULL) {
        fprintf(stderr, "did you mean '%s'?\n", nearest.best);
    } else {
        fprintf(stderr, "pgstage schedule list %s shows what there is\n", pipeline);
    }
    nearest_finish(&nearest);
    sync_result_free(rows);
    return EXIT_WRONG;
}

static enum exit_status set_paused(const struct args *args, struct db_sync *db, bool paused) {
    const char *pipeline = args->positional[1], *name = args->positional[2];
    struct db_param params[] = {DB_TEXT(pipeline), DB_TEXT(name), DB_TEXT(paused ? "t" : "f")};
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    if (sync_run(db, NULL, sql_pause_schedule.text, 3, params, &result, &err) != STATUS_OK) {
        return report_error(&err);
    }
    bool found = db_bool(result, 0, 0);
    sync_result_free(result);
    if (!found) {
        return not_found(db, pipeline, name);
    }
    if (args_has(args, "json")) {
        struct buf out;
        buf_init(&out, SIZE_MAX);
        json_begin(&out, NULL, '{');
        json_add_text(&out, "pipeline", pipeline);
        json_add_text(&out, "schedule", name);
        json_add_bool(&out, "paused", paused);
        json_end(&out, '}');
        printf("%s\n", out.data);
        buf_finish(&out);
    } else {
        printf("schedule '%s' %s\n", name, paused ? "is paused" : "goes on; ticks that passed meanwhile are not made up for");
    }
    return output_finish(EXIT_OK);
}

static void print_fire(const struct args *args, const struct db_result *result) {
    const char *task = db_is_null(result, 0, FIRED_TASK) ? NULL : db_value(result, 0, FIRED_TASK);
    if (args_has(args, "json")) {
        struct buf out;
        buf_init(&out, SIZE_MAX);
        json_begin(&out, NULL, '{');
        for (int column = 0; column < db_columns(result); column++) {
            json_add_text(&out, db_column_name(result, column), db_is_null(result, 0, column) ? NULL : db_value(result, 0, column));
        }
        json_end(&out, '}');
        printf("%s\n", out.data);
        buf_finish(&out);
    } else {
        printf("%s%s%s\n", db_value(result, 0, FIRED_OUTCOME), task == NULL ? "" : ": ", task == NULL ? "" : text_shown(task));
    }
}

static enum exit_status fire(const struct args *args, struct db_sync *db) {
    const char *pipeline = args->positional[1], *name = args->positional[2];
    struct db_param params[] = {DB_TEXT(pipeline), DB_TEXT(name)};
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    if (sync_run(db, NULL, sql_fire_schedule.text, 2, params, &result, &err) != STATUS_OK) {
        return report_error(&err);
    }
    enum exit_status status = EXIT_OK;
    if (db_rows(result) == 0) {
        status = not_found(db, pipeline, name);
    } else {
        print_fire(args, result);
        if (strcmp(db_value(result, 0, FIRED_OUTCOME), "fired") != 0) {
            fprintf(stderr, "pgstage: %s\n", text_shown(db_value(result, 0, FIRED_ERROR)));
            status = EXIT_SOME_FAILED;
        }
        status = output_finish(status);
    }
    sync_result_free(result);
    return status;
}

/* ---- the command -------------------------------------------------------------------------------------------------- */

static bool is_word(const struct args *args, const char *word) {
    return args->count > 0 && strcmp(args->positional[0], word) == 0;
}

static enum exit_status run_schedule(const struct args *args) {
    bool pauses = is_word(args, "pause"), resumes = is_word(args, "resume"), fires = is_word(args, "fire");
    bool lists = is_word(args, "list");
    if (pauses || resumes || fires) {
        if (args->count != 3) {
            return usage_error(args, "%s wants a pipeline and the name of a schedule", args->positional[0]);
        }
    } else if (lists && args->count > 2) {
        return usage_error(args, "unexpected argument '%s'", text_shown(args->positional[2]));
    } else if (!lists && args->count > 1) {
        return usage_error(args, "'%s' is not list, pause, resume or fire", text_shown(args->positional[0]));
    }
    struct session session;
    enum exit_status status = session_open(args, &session);
    if (status == EXIT_OK) {
        int at = lists ? 1 : 0;
        status = fires              ? fire(args, session.db)
                 : pauses || resumes ? set_paused(args, session.db, pauses)
                                     : list(args, session.db, args->count > at ? args->positional[at] : NULL);
        session_close(&session);
    }
    return status;
}

static const struct option_spec options[] = {{"json", NULL, "one JSON object a line"}, {0}};

const struct command command_schedule = {
    .name = "schedule",
    .usage = "[list] [PIPELINE] [--json]\n       pgstage schedule pause|resume|fire PIPELINE NAME [--json]",
    .summary = "list schedules with their next and last ticks; pause one, resume it, or fire it now, whatever pause and overlap say",
    .options = options,
    .max_positional = 3,
    .run = run_schedule,
};
