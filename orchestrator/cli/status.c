/* status.c - pgstage status: once, or every second until Ctrl-C. */
#include "cli/status.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/catalog.h"
#include "cli/output.h"
#include "sql/statements.h"

enum { REDRAW_MS = 1000, LONG_CLAIM_MS = 60 * 1000 };

/* Only then their tasks are looked up: all else comes from small tables. */
static bool any_claim_is_long(const struct status_view *view) {
    for (int row = 0; row < db_rows(view->stages); row++) {
        if (db_int64(view->stages, row, STAGE_OLDEST_MS) >= LONG_CLAIM_MS) {
            return true;
        }
    }
    return false;
}

static enum status read_view(struct db_sync *db, struct status_view *view, struct error *err) {
    struct db_param params[] = {{.data = view->pipeline}};
    enum status status = sync_run(db, NULL, sql_status.text, 1, params, &view->stages, err);
    if (status == STATUS_OK) {
        status = sync_run(db, NULL, sql_status_nodes.text, 0, NULL, &view->nodes, err);
    }
    if (status == STATUS_OK) {
        status = sync_run(db, NULL, sql_status_health.text, 0, NULL, &view->health, err);
    }
    if (status == STATUS_OK) {
        status = sync_run(db, NULL, sql_status_schedules.text, 1, params, &view->schedules, err);
    }
    if (status == STATUS_OK && any_claim_is_long(view)) {
        char text[16];
        snprintf(text, sizeof text, "%d", LONG_CLAIM_MS);
        struct db_param long_params[] = {{.data = view->pipeline}, DB_TEXT(text)};
        status = sync_run(db, NULL, sql_status_oldest.text, 2, long_params, &view->oldest, err);
    }
    return status;
}

static void finish_view(struct status_view *view) {
    sync_result_free(view->stages);
    sync_result_free(view->nodes);
    sync_result_free(view->health);
    sync_result_free(view->oldest);
    sync_result_free(view->schedules);
    view->schedules = NULL;
    view->stages = view->nodes = view->health = view->oldest = NULL;
}

/* Counts are read from small tables: a database that does not answer in that time is told of, not waited for. */
static enum status limit_time(struct db_sync *db, struct error *err) {
    return sync_script(db, "set statement_timeout = '10s'", err);
}

static enum status write_view(struct db_sync *db, const char *pipeline, bool json, struct buf *out, struct error *err) {
    struct status_view view = {.pipeline = pipeline};
    enum status status = read_view(db, &view, err);
    if (status == STATUS_OK && json) {
        status_write_json(&view, out);
    } else if (status == STATUS_OK) {
        status_write_text(&view, output_has_colour(), out);
    }
    finish_view(&view);
    return status;
}

static enum exit_status show_once(const struct args *args, struct db_sync *db, const char *pipeline) {
    struct buf out;
    struct error err = ERROR_NONE;
    buf_init(&out, SIZE_MAX);
    enum exit_status status = EXIT_OK;
    if (write_view(db, pipeline, args_has(args, "json"), &out, &err) != STATUS_OK) {
        status = report_error(&err);
    }
    output_put(&out);
    buf_finish(&out);
    return output_finish(status);
}

/* ---- --watch ------------------------------------------------------------------------------------------------------ */

static int stop_pipe[2] = {-1, -1};

static void on_stop(int number) {
    (void)number;
    int saved = errno;
    if (write(stop_pipe[1], "", 1) < 0) {
        /* Full: it was told before. */
    }
    errno = saved;
}

/* The first Ctrl-C ends the watch in order, the second the program at once. */
static bool catch_stops(void) {
    if (pipe(stop_pipe) != 0) {
        return false;
    }
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    return sigaction(SIGINT, &action, NULL) == 0 && sigaction(SIGTERM, &action, NULL) == 0;
}

static bool is_stopped_within(int ms) {
    struct pollfd stop = {.fd = stop_pipe[0], .events = POLLIN};
    return poll(&stop, 1, ms) > 0;
}

static void draw(const struct buf *page, bool terminal) {
    struct buf out;
    buf_init(&out, SIZE_MAX);
    buf_append_string(&out, terminal ? "\033[H\033[2J" : "");
    buf_append(&out, page->data, page->length);
    buf_append_string(&out, terminal ? "" : "\n");
    output_put(&out);
    buf_finish(&out);
}

/* While the database is away that is what is shown, and it is tried again. */
static enum exit_status watch(struct session *session, const char *pipeline) {
    bool terminal = isatty(STDOUT_FILENO) == 1;
    if (!catch_stops()) {
        fprintf(stderr, "pgstage: cannot watch: %s\n", strerror(errno));
        return EXIT_WRONG;
    }
    for (bool stopped = false; !stopped && !output_is_broken(); stopped = is_stopped_within(REDRAW_MS)) {
        struct buf page;
        struct error err = ERROR_NONE;
        enum status status = STATUS_OK;
        buf_init(&page, SIZE_MAX);
        if (session->db == NULL) {
            status = sync_open(session->database.url, "status", &session->db, &err);
            status = status == STATUS_OK ? limit_time(session->db, &err) : status;
        }
        if (status == STATUS_OK) {
            status = write_view(session->db, pipeline, false, &page, &err);
        }
        if (status != STATUS_OK && !status_is_transient(status)) {
            buf_finish(&page);
            return report_error(&err);
        }
        if (status != STATUS_OK) {
            buf_clear(&page);
            buf_append_string(&page, "the database is away: ");
            text_show(&page, err.text, 0);
            buf_append_char(&page, '\n');
            sync_close(session->db);
            session->db = NULL;
        }
        draw(&page, terminal);
        buf_finish(&page);
    }
    return output_finish(EXIT_OK);
}

static enum exit_status run_status(const struct args *args) {
    const char *pipeline = args->count > 0 ? args->positional[0] : NULL;
    if (args_has(args, "json") && args_has(args, "watch")) {
        return usage_error(args, "--json and --watch exclude each other");
    }
    struct session session;
    enum exit_status status = session_open(args, &session);
    if (status != EXIT_OK) {
        return status;
    }
    struct error err = ERROR_NONE;
    if (limit_time(session.db, &err) != STATUS_OK) {
        status = report_error(&err);
    } else if (pipeline != NULL) {
        status = catalog_check(session.db, pipeline, NULL, false);
    }
    if (status == EXIT_OK) {
        output_open();
        status = args_has(args, "watch") ? watch(&session, pipeline) : show_once(args, session.db, pipeline);
    }
    session_close(&session);
    return status;
}

static const struct option_spec options[] = {
    {"json", NULL, "as one JSON document"},
    {"watch", NULL, "show it every second until Ctrl-C"},
    {0},
};

const struct command command_status = {
    .name = "status",
    .usage = "[PIPELINE] [--json|--watch]",
    .summary = "what stands where, how fast it goes, and what is wrong",
    .options = options,
    .max_positional = 1,
    .run = run_status,
};
