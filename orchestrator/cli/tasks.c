/* tasks.c - pgstage tasks PIPELINE: lists tasks, a page at a time. */
#include <stdio.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/json_write.h"
#include "cli/output.h"
#include "cli/selection.h"

enum { LIMIT_DEFAULT = 50, LIMIT_MAX = 100000000, PAGE = 1000, REASON_WIDTH = 80 };

static const struct table_column columns[] = {
    {"KEY", false},    {"STATUS", false},  {"STAGE", false},  {"VERSION", true},
    {"ATTEMPT", true}, {"UPDATED", false}, {"REASON", false},
};

struct listing {
    struct selection selection;
    struct table table;
    struct buf out;
    int64_t limit, shown;
    bool json, more;
};

static void add_as_json(struct buf *out, const struct db_result *page, int row) {
    json_begin(out, NULL, '{');
    for (int column = 0; column < db_columns(page); column++) {
        const char *value = db_is_null(page, row, column) ? NULL : db_value(page, row, column);
        if (column >= FOUND_VERSION && column <= FOUND_PRIORITY) {
            json_add_raw(out, db_column_name(page, column), value);
        } else {
            json_add_text(out, db_column_name(page, column), value);
        }
    }
    json_end(out, '}');
    buf_append_char(out, '\n');
}

static void add_shown(struct table *table, const char *text, int max_width) {
    struct buf cell;
    buf_init(&cell, SIZE_MAX);
    text_show(&cell, text, max_width);
    table_add(table, cell.data);
    buf_finish(&cell);
}

static void add_reason(struct table *table, const struct db_result *page, int row) {
    const char *reason = db_value(page, row, FOUND_ERROR_TEXT);
    struct buf due;
    buf_init(&due, SIZE_MAX);
    if (*reason == '\0' && !db_is_null(page, row, FOUND_DUE_AT)) {
        buf_append_string(&due, "due ");
        text_time(&due, db_value(page, row, FOUND_DUE_AT));
        reason = due.data;
    }
    add_shown(table, reason, REASON_WIDTH);
    buf_finish(&due);
}

static void add_as_row(struct table *table, const struct db_result *page, int row) {
    struct buf time;
    buf_init(&time, SIZE_MAX);
    text_time(&time, db_value(page, row, FOUND_UPDATED));
    /* A key is never cut when it goes into another program. */
    table_add(table, db_value(page, row, FOUND_KEY));
    table_add(table, db_value(page, row, FOUND_STATUS));
    table_add(table, db_value(page, row, FOUND_STAGE));
    table_add(table, db_value(page, row, FOUND_VERSION));
    /* What is over has no attempt: those of its stages began at 0 each. */
    bool is_done = strcmp(db_value(page, row, FOUND_STATUS), "done") == 0;
    table_add(table, is_done ? "" : db_value(page, row, FOUND_ATTEMPT));
    table_add(table, time.data);
    add_reason(table, page, row);
    buf_finish(&time);
}

static void put_page(struct listing *listing, const struct db_result *page) {
    for (int row = 0; row < db_rows(page); row++) {
        if (listing->json) {
            add_as_json(&listing->out, page, row);
        } else {
            add_as_row(&listing->table, page, row);
        }
    }
    listing->shown += db_rows(page);
    table_print(&listing->table, &listing->out);
    output_put(&listing->out);
    buf_clear(&listing->out);
}

static enum exit_status list(struct listing *listing, struct db_sync *db) {
    for (bool over = false; !over && !output_is_broken();) {
        int64_t left = listing->limit - listing->shown;
        /* Once the limit is reached, one more is asked for: to say whether there are more. */
        int wanted = left == 0 ? 1 : left < PAGE ? (int)left : PAGE;
        struct db_result *page = NULL;
        struct error err = ERROR_NONE;
        if (selection_page(&listing->selection, db, wanted, &page, &err) != STATUS_OK) {
            return report_error(&err);
        }
        over = left == 0 || db_rows(page) < wanted;
        if (left == 0) {
            listing->more = db_rows(page) > 0;
        } else {
            put_page(listing, page);
        }
        sync_result_free(page);
    }
    return EXIT_OK;
}

static void print_end(const struct listing *listing) {
    if (listing->json || output_is_broken()) {
        return;
    }
    if (listing->shown == 0) {
        fprintf(stderr, "no tasks%s\n", selection_is_everything(&listing->selection) ? "" : " match");
    } else if (listing->more) {
        fprintf(stderr, "the first %lld are shown, --limit N shows more\n", (long long)listing->shown);
    }
}

static enum exit_status run_tasks(const struct args *args) {
    struct listing listing = {.limit = LIMIT_DEFAULT, .json = args_has(args, "json")};
    enum exit_status status = selection_read(args, &listing.selection);
    if (status == EXIT_OK && !args_int(args, "limit", 1, LIMIT_MAX, &listing.limit)) {
        status = EXIT_WRONG;
    }
    struct session session = {0};
    if (status == EXIT_OK) {
        status = catalog_open(args, listing.selection.pipeline, listing.selection.stage, &session);
    }
    if (status == EXIT_OK) {
        output_open();
        table_init(&listing.table, columns, sizeof columns / sizeof columns[0]);
        buf_init(&listing.out, SIZE_MAX);
        status = list(&listing, session.db);
        table_finish(&listing.table);
        buf_finish(&listing.out);
        status = output_finish(status);
        session_close(&session);
    }
    if (status == EXIT_OK) {
        print_end(&listing);
    }
    selection_finish(&listing.selection);
    return status;
}

static const struct option_spec options[] = {
    SELECTION_OPTIONS,
    {"limit", "N", "at most so many (50)"},
    {"json", NULL, "one JSON object a line"},
    {0},
};

const struct command command_tasks = {
    .name = "tasks",
    .usage = "PIPELINE [--status S] [--stage S] [--key PATTERN] [--error PATTERN] [--older-than D] [--limit N] [--json]",
    .summary = "list tasks",
    .options = options,
    .min_positional = 1,
    .max_positional = 1,
    .run = run_tasks,
};
