/* show.c - pgstage show PIPELINE KEY: all that is known of one task. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/json_write.h"
#include "cli/output.h"
#include "cli/selection.h"
#include "sql/statements.h"

enum { TASK_ID, TASK_ROW, TASK_PAYLOAD, TASK_PAYLOAD_BYTES };
enum { OUTPUT_STAGE, OUTPUT_VERSION, OUTPUT_MADE, OUTPUT_BYTES, OUTPUT_VALUE };
enum { PROGRESS_STAGE, PROGRESS_VERSION, PROGRESS_FRACTION, PROGRESS_TEXT, PROGRESS_AT };
enum { FAILURE_AT, FAILURE_STAGE, FAILURE_VERSION, FAILURE_ATTEMPT, FAILURE_KIND, FAILURE_TEXT, FAILURE_DETAIL };
enum { PREVIEW_WIDTH = 60, PAYLOAD_WIDTH = 200 };

struct found {
    struct db_result *task, *progress, *outputs, *failures;
};

/* ---- as text ------------------------------------------------------------------------------------------------------ */

static const char *text_of(const json_t *row, const char *name) {
    const char *text = json_string_value(json_object_get(row, name));
    return text == NULL ? "" : text;
}

static int64_t number_of(const json_t *row, const char *name) {
    return json_integer_value(json_object_get(row, name));
}

static void add_label(struct buf *out, const char *label) {
    buf_append_format(out, "%-10s ", label);
}

static void add_time(struct buf *out, const json_t *row, const char *label, const char *name) {
    const char *iso = text_of(row, name);
    if (*iso != '\0') {
        add_label(out, label);
        text_time(out, iso);
        buf_append_char(out, '\n');
    }
}

static void add_row(struct buf *out, const json_t *row) {
    add_label(out, "key");
    text_show(out, text_of(row, "key"), 0);
    buf_append_char(out, '\n');
    add_label(out, "pipeline");
    buf_append_format(out, "%s\n", text_of(row, "pipeline"));
    add_label(out, "id");
    buf_append_format(out, "%s\n", text_of(row, "id"));
    add_label(out, "status");
    buf_append_format(out, "%s at stage %s%s%s\n", text_of(row, "status"), text_of(row, "stage"),
                      strcmp(text_of(row, "wish"), "cancel") == 0 ? ", to be cancelled" : "",
                      strcmp(text_of(row, "goal"), "absent") == 0 ? ", being deleted" : "");
    add_label(out, "version");
    buf_append_format(out, "%" PRId64, number_of(row, "version"));
    if (json_is_integer(json_object_get(row, "done_version"))) {
        buf_append_format(out, " (done: %" PRId64 ")", number_of(row, "done_version"));
    }
    int64_t attempts = number_of(row, "attempt"), crashes = number_of(row, "crashes"), rescues = number_of(row, "rescues");
    buf_append_format(out, "\n%-10s %" PRId64 " attempt%s, %" PRId64 " crash%s, %" PRId64 " rescue%s\n", "counters", attempts,
                      text_plural(attempts), crashes, crashes == 1 ? "" : "es", rescues, text_plural(rescues));
    if (number_of(row, "priority") != 0) {
        buf_append_format(out, "%-10s %" PRId64 "\n", "priority", number_of(row, "priority"));
    }
    add_time(out, row, "stamp", "task_updated_at");
    add_time(out, row, "created", "created");
    add_time(out, row, "updated", "updated");
    add_time(out, row, "due", "due_at");
    add_time(out, row, "again", "again_at");
    add_time(out, row, "begun", "begin_time");
    add_time(out, row, "ended", "end_time");
    if (*text_of(row, "error_text") != '\0') {
        add_label(out, "reason");
        text_show(out, text_of(row, "error_text"), 0);
        buf_append_char(out, '\n');
    }
}

static void add_progress(struct buf *out, const struct db_result *progress) {
    if (db_rows(progress) == 0) {
        return;
    }
    add_label(out, "progress");
    buf_append_format(out, "%.0f %%", strtod(db_value(progress, 0, PROGRESS_FRACTION), NULL) * 100);
    if (*db_value(progress, 0, PROGRESS_TEXT) != '\0') {
        buf_append_string(out, ", ");
        text_show(out, db_value(progress, 0, PROGRESS_TEXT), 0);
    }
    buf_append_string(out, " (said ");
    text_time(out, db_value(progress, 0, PROGRESS_AT));
    buf_append_string(out, ")\n");
}

static void add_payload(struct buf *out, const struct db_result *task) {
    add_label(out, "payload");
    if (db_is_null(task, 0, TASK_PAYLOAD)) {
        buf_append_string(out, "none\n");
        return;
    }
    text_show(out, db_value(task, 0, TASK_PAYLOAD), PAYLOAD_WIDTH);
    buf_append_string(out, " (");
    text_size(out, db_int64(task, 0, TASK_PAYLOAD_BYTES));
    buf_append_string(out, ")\n");
}

static void add_cell(struct table *table, void (*write)(struct buf *, const char *), const char *text) {
    struct buf cell;
    buf_init(&cell, SIZE_MAX);
    write(&cell, text);
    table_add(table, cell.data);
    buf_finish(&cell);
}

static void write_preview(struct buf *out, const char *text) {
    text_show(out, text, PREVIEW_WIDTH);
}

static void write_size(struct buf *out, const char *bytes) {
    int64_t value = 0;
    if (sscanf(bytes, "%" SCNd64, &value) == 1) {
        text_size(out, value);
    }
}

static void add_outputs(struct buf *out, const struct db_result *outputs) {
    static const struct table_column columns[] = {
        {"OUTPUT OF", false}, {"VERSION", true}, {"MADE", false}, {"SIZE", true}, {"VALUE", false},
    };
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < db_rows(outputs); i++) {
        table_add(&table, db_value(outputs, i, OUTPUT_STAGE));
        table_add(&table, db_value(outputs, i, OUTPUT_VERSION));
        add_cell(&table, text_time, db_value(outputs, i, OUTPUT_MADE));
        add_cell(&table, write_size, db_value(outputs, i, OUTPUT_BYTES));
        add_cell(&table, write_preview, db_value(outputs, i, OUTPUT_VALUE));
    }
    buf_append_string(out, db_rows(outputs) > 0 ? "\n" : "");
    table_print(&table, out);
    table_finish(&table);
}

/* What the handler wrote last, a line at a time, set in. */
static void add_detail(struct buf *out, const char *detail) {
    while (*detail != '\0') {
        size_t length = strcspn(detail, "\n");
        struct buf line;
        buf_init(&line, SIZE_MAX);
        buf_append(&line, detail, length);
        buf_append_string(out, "    | ");
        text_show(out, line.data, 0);
        buf_append_char(out, '\n');
        buf_finish(&line);
        detail += length + (detail[length] == '\n');
    }
}

static void add_failures(struct buf *out, const struct db_result *failures) {
    if (db_rows(failures) > 0) {
        buf_append_string(out, "\nfailed runs, the newest first\n");
    }
    for (int i = 0; i < db_rows(failures); i++) {
        buf_append_string(out, "  ");
        text_time(out, db_value(failures, i, FAILURE_AT));
        buf_append_format(out, "  %s, version %s, attempt %s: %s: ", db_value(failures, i, FAILURE_STAGE),
                          db_value(failures, i, FAILURE_VERSION), db_value(failures, i, FAILURE_ATTEMPT),
                          db_value(failures, i, FAILURE_KIND));
        text_show(out, db_value(failures, i, FAILURE_TEXT), 0);
        buf_append_char(out, '\n');
        add_detail(out, db_value(failures, i, FAILURE_DETAIL));
    }
}

static void write_text(struct buf *out, const struct found *found) {
    json_t *row = json_loads(db_value(found->task, 0, TASK_ROW), JSON_ALLOW_NUL, NULL);
    add_row(out, row);
    json_decref(row);
    add_progress(out, found->progress);
    add_payload(out, found->task);
    add_outputs(out, found->outputs);
    add_failures(out, found->failures);
}

/* ---- as JSON ------------------------------------------------------------------------------------------------------ */

static void write_rows(struct buf *out, const char *name, const struct db_result *rows, int first_raw, int last_raw,
                       int raw) {
    json_begin(out, name, '[');
    for (int row = 0; row < db_rows(rows); row++) {
        json_begin(out, NULL, '{');
        for (int column = 0; column < db_columns(rows); column++) {
            const char *value = db_is_null(rows, row, column) ? NULL : db_value(rows, row, column);
            if ((column >= first_raw && column <= last_raw) || column == raw) {
                json_add_raw(out, db_column_name(rows, column), value);
            } else {
                json_add_text(out, db_column_name(rows, column), value);
            }
        }
        json_end(out, '}');
    }
    json_end(out, ']');
}

/* Of the stage at which the task stands; null when there is none. */
static void write_progress(struct buf *out, const struct db_result *progress) {
    if (db_rows(progress) == 0) {
        json_add_raw(out, "progress", NULL);
        return;
    }
    json_begin(out, "progress", '{');
    json_add_text(out, "stage", db_value(progress, 0, PROGRESS_STAGE));
    json_add_raw(out, "version", db_value(progress, 0, PROGRESS_VERSION));
    json_add_raw(out, "fraction", db_value(progress, 0, PROGRESS_FRACTION));
    json_add_text(out, "text", db_value(progress, 0, PROGRESS_TEXT));
    json_add_text(out, "at", db_value(progress, 0, PROGRESS_AT));
    json_end(out, '}');
}

static void write_json(struct buf *out, const struct found *found) {
    json_begin(out, NULL, '{');
    json_add_raw(out, "task", db_value(found->task, 0, TASK_ROW));
    json_add_raw(out, "payload", db_is_null(found->task, 0, TASK_PAYLOAD) ? NULL : db_value(found->task, 0, TASK_PAYLOAD));
    write_progress(out, found->progress);
    write_rows(out, "outputs", found->outputs, OUTPUT_BYTES, OUTPUT_VALUE, OUTPUT_VERSION);
    write_rows(out, "failures", found->failures, FAILURE_VERSION, FAILURE_ATTEMPT, FAILURE_ATTEMPT);
    json_end(out, '}');
    buf_append_char(out, '\n');
}

/* ---- the command -------------------------------------------------------------------------------------------------- */

static enum status find(struct db_sync *db, const char *pipeline, const char *key, struct found *found,
                        struct error *err) {
    struct db_param params[] = {DB_TEXT(pipeline), DB_TEXT(key)};
    enum status status = sync_run(db, NULL, sql_show_task.text, 2, params, &found->task, err);
    if (status != STATUS_OK || db_rows(found->task) == 0) {
        return status;
    }
    struct db_param id[] = {DB_TEXT(db_value(found->task, 0, TASK_ID))};
    status = sync_run(db, NULL, sql_show_progress.text, 1, id, &found->progress, err);
    if (status == STATUS_OK) {
        status = sync_run(db, NULL, sql_show_outputs.text, 1, id, &found->outputs, err);
    }
    if (status == STATUS_OK) {
        status = sync_run(db, NULL, sql_show_failures.text, 1, id, &found->failures, err);
    }
    return status;
}

static enum exit_status show(const struct args *args, struct db_sync *db) {
    struct found found = {0};
    struct error err = ERROR_NONE;
    enum exit_status status = EXIT_OK;
    if (find(db, args->positional[0], args->positional[1], &found, &err) != STATUS_OK) {
        status = report_error(&err);
    } else if (db_rows(found.task) == 0) {
        status = catalog_no_task(db, args->positional[0], args->positional[1]);
    } else {
        struct buf out;
        buf_init(&out, SIZE_MAX);
        if (args_has(args, "json")) {
            write_json(&out, &found);
        } else {
            write_text(&out, &found);
        }
        output_open();
        output_put(&out);
        buf_finish(&out);
        status = output_finish(status);
    }
    sync_result_free(found.task);
    sync_result_free(found.progress);
    sync_result_free(found.outputs);
    sync_result_free(found.failures);
    return status;
}

static enum exit_status run_show(const struct args *args) {
    if (!key_check(args, args->positional[1])) {
        return EXIT_WRONG;
    }
    struct session session;
    enum exit_status status = session_open(args, &session);
    if (status == EXIT_OK) {
        status = show(args, session.db);
        session_close(&session);
    }
    return status;
}

static const struct option_spec options[] = {
    {"json", NULL, "as one JSON document"},
    {0},
};

const struct command command_show = {
    .name = "show",
    .usage = "PIPELINE KEY [--json]",
    .summary = "show one task: its state, outputs and failed runs",
    .options = options,
    .min_positional = 2,
    .max_positional = 2,
    .run = run_show,
};
