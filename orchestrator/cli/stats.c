/* stats.c - pgstage stats: how the stages did, from what the nodes have written down; never from the task table. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/json_write.h"
#include "cli/output.h"
#include "sql/statements.h"

enum { PERIOD, STAGE, RUNS, FAILED, TOTAL_MS, MEAN_MS, P50_MS, P95_MS, P99_MS, WAIT_MEAN_MS, WAIT_P95_MS };

#define DAY_MS (INT64_C(24) * 3600 * 1000)

static const struct table_column columns[] = {
    {"SINCE", false}, {"STAGE", false}, {"RUNS", true}, {"FAILED", true}, {"TOTAL", true},     {"MEAN", true},
    {"P50", true},    {"P95", true},    {"P99", true},  {"WAIT", true},   {"WAIT P95", true},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static void write_table(const struct db_result *rows, bool with_period, struct buf *out) {
    struct table table;
    int skipped = with_period ? 0 : 1;
    table_init(&table, columns + skipped, COLUMNS - skipped);
    for (int row = 0; row < db_rows(rows); row++) {
        for (int column = skipped; column < COLUMNS; column++) {
            struct buf cell;
            buf_init(&cell, SIZE_MAX);
            if (column == PERIOD) {
                text_time(&cell, db_value(rows, row, column));
            } else if (column < TOTAL_MS) {
                buf_append_string(&cell, db_value(rows, row, column));
            } else if (!db_is_null(rows, row, column)) {
                text_span(&cell, strtod(db_value(rows, row, column), NULL));
            }
            table_add(&table, cell.data);
            buf_finish(&cell);
        }
    }
    table_print(&table, out);
    table_finish(&table);
}

static void write_json(const struct db_result *rows, struct buf *out) {
    for (int row = 0; row < db_rows(rows); row++) {
        json_begin(out, NULL, '{');
        json_add_text(out, "period", db_is_null(rows, row, PERIOD) ? NULL : db_value(rows, row, PERIOD));
        json_add_text(out, "stage", db_value(rows, row, STAGE));
        for (int column = RUNS; column < COLUMNS; column++) {
            json_add_raw(out, db_column_name(rows, column), db_value(rows, row, column));
        }
        json_end(out, '}');
        buf_append_char(out, '\n');
    }
}

static enum exit_status show(const struct args *args, struct db_sync *db, const char *by, int64_t since_ms) {
    char since[24];
    snprintf(since, sizeof since, "%" PRId64, since_ms);
    struct db_param params[] = {DB_TEXT(args->positional[0]), DB_TEXT(by), DB_TEXT(since)};
    struct db_result *rows = NULL;
    struct error err = ERROR_NONE;
    if (sync_run(db, NULL, sql_stats.text, 3, params, &rows, &err) != STATUS_OK) {
        return report_error(&err);
    }
    struct buf out;
    buf_init(&out, SIZE_MAX);
    if (args_has(args, "json")) {
        write_json(rows, &out);
    } else if (db_rows(rows) > 0) {
        write_table(rows, strcmp(by, "stage") != 0, &out);
    }
    output_open();
    output_put(&out);
    enum exit_status status = output_finish(EXIT_OK);
    if (db_rows(rows) == 0 && !args_has(args, "json")) {
        fprintf(stderr, "nothing ran in that time\n");
    }
    buf_finish(&out);
    sync_result_free(rows);
    return status;
}

static enum exit_status run_stats(const struct args *args) {
    const char *by = args_has(args, "by") ? args_get(args, "by") : "stage";
    int64_t since_ms = strcmp(by, "day") == 0 ? 30 * DAY_MS : DAY_MS;
    if (strcmp(by, "hour") != 0 && strcmp(by, "day") != 0 && strcmp(by, "stage") != 0) {
        return usage_error(args, "--by wants hour, day or stage, not '%s'", text_shown(by));
    }
    if (!args_duration(args, "since", &since_ms)) {
        return EXIT_WRONG;
    }
    struct session session;
    enum exit_status status = catalog_open(args, args->positional[0], NULL, &session);
    if (status == EXIT_OK) {
        status = show(args, session.db, by, since_ms);
        session_close(&session);
    }
    return status;
}

static const struct option_spec options[] = {
    {"by", "WHAT", "a line per hour and stage, per day and stage, or per stage (stage)"},
    {"since", "DURATION", "how far back (24h; with --by day 30d)"},
    {"json", NULL, "one JSON object a line"},
    {0},
};

const struct command command_stats = {
    .name = "stats",
    .usage = "PIPELINE [--by hour|day|stage] [--since D] [--json]",
    .summary = "runs, failures, run times and waiting times",
    .options = options,
    .min_positional = 1,
    .max_positional = 1,
    .run = run_stats,
};
