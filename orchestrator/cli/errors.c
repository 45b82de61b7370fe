/* errors.c - pgstage errors: what is wrong now, at a glance. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/catalog.h"
#include "cli/json_write.h"
#include "cli/output.h"
#include "sql/statements.h"

enum { GROUPS_SHOWN = 20, TEXT_WIDTH = 100 };
enum { STAGE, KIND, FAILED, RETRYING, FIRST_SEEN, LAST_SEEN, KEY, ERROR_TEXT, GROUPS };

static const struct table_column columns[] = {
    {"STAGE", false}, {"FAILED", true}, {"RETRYING", true}, {"FIRST SEEN", false}, {"LAST SEEN", false}, {"REASON", false},
};

static void add_time(struct table *table, const char *iso) {
    struct buf cell;
    buf_init(&cell, SIZE_MAX);
    text_time(&cell, iso);
    table_add(table, cell.data);
    buf_finish(&cell);
}

/* Whole, so that it can be given to --error as it stands: the last column, and at most 161 characters. A control character
 * becomes a sign that is wild, since its escape would be a pattern of something else. */
static void add_kind(struct table *table, const char *kind) {
    struct buf plain, cell;
    buf_init(&plain, SIZE_MAX);
    buf_init(&cell, SIZE_MAX);
    for (; *kind != '\0'; kind++) {
        buf_append_char(&plain, (unsigned char)*kind < ' ' || *kind == '\x7f' ? '?' : *kind);
    }
    text_show(&cell, plain.data, 0);
    table_add(table, cell.data);
    buf_finish(&plain);
    buf_finish(&cell);
}

static void write_table(const struct db_result *groups, struct buf *out) {
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (int row = 0; row < db_rows(groups); row++) {
        table_add(&table, db_value(groups, row, STAGE));
        table_add(&table, db_value(groups, row, FAILED));
        table_add(&table, db_value(groups, row, RETRYING));
        add_time(&table, db_value(groups, row, FIRST_SEEN));
        add_time(&table, db_value(groups, row, LAST_SEEN));
        add_kind(&table, db_value(groups, row, KIND));
    }
    table_print(&table, out);
    table_finish(&table);
    for (int row = 0; row < db_rows(groups); row++) {
        buf_append_format(out, "%snewest in %s: ", row == 0 ? "\n" : "", db_value(groups, row, STAGE));
        text_show(out, db_value(groups, row, KEY), 0);
        buf_append_string(out, ": ");
        text_show(out, db_value(groups, row, ERROR_TEXT), TEXT_WIDTH);
        buf_append_char(out, '\n');
    }
}

static void write_json(const struct db_result *groups, struct buf *out) {
    for (int row = 0; row < db_rows(groups); row++) {
        json_begin(out, NULL, '{');
        for (int column = STAGE; column <= ERROR_TEXT; column++) {
            const char *name = db_column_name(groups, column), *value = db_value(groups, row, column);
            if (column == FAILED || column == RETRYING) {
                json_add_raw(out, name, value);
            } else {
                json_add_text(out, name, value);
            }
        }
        json_end(out, '}');
        buf_append_char(out, '\n');
    }
}

static enum exit_status show(const struct args *args, struct db_sync *db) {
    char at_most[16];
    snprintf(at_most, sizeof at_most, "%d", args_has(args, "all") ? INT32_MAX : GROUPS_SHOWN);
    struct db_param params[] = {DB_TEXT(args->positional[0]), DB_TEXT(at_most)};
    struct db_result *groups = NULL;
    struct error err = ERROR_NONE;
    if (sync_run(db, NULL, sql_errors.text, 2, params, &groups, &err) != STATUS_OK) {
        return report_error(&err);
    }
    struct buf out;
    buf_init(&out, SIZE_MAX);
    int64_t all = db_rows(groups) == 0 ? 0 : db_int64(groups, 0, GROUPS);
    if (args_has(args, "json")) {
        write_json(groups, &out);
    } else if (all > 0) {
        write_table(groups, &out);
    }
    output_open();
    output_put(&out);
    enum exit_status status = output_finish(EXIT_OK);
    if (all == 0 && !args_has(args, "json")) {
        fprintf(stderr, "no task is in error\n");
    } else if (all > db_rows(groups)) {
        fprintf(stderr, "the %d largest of %" PRId64 " groups are shown, --all shows all\n", db_rows(groups), all);
    }
    buf_finish(&out);
    sync_result_free(groups);
    return status;
}

static enum exit_status run_errors(const struct args *args) {
    struct session session;
    enum exit_status status = catalog_open(args, args->positional[0], NULL, &session);
    if (status == EXIT_OK) {
        status = show(args, session.db);
        session_close(&session);
    }
    return status;
}

static const struct option_spec options[] = {
    {"all", NULL, "all groups, not the largest 20 only"},
    {"json", NULL, "one JSON object a line"},
    {0},
};

const struct command command_errors = {
    .name = "errors",
    .usage = "PIPELINE [--all] [--json]",
    .summary = "tasks now in error, by stage and reason; a reason is a pattern for --error",
    .options = options,
    .min_positional = 1,
    .max_positional = 1,
    .run = run_errors,
};
