#include "cli/run_database.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "cli/output.h"
#include "db/pooler.h"
#include "sql/statements.h"

enum { HANDLER_LANES = 2, SKEW_MS = 5000 };
enum { ROOM_ALLOWED, ROOM_FREE };

/* ---- the way ---- */

static const char *listen_url(const struct args *args) {
    const char *url = args_get(args, "listen-database");
    if (url == NULL) {
        url = getenv("PGSTAGE_LISTEN_DATABASE_URL");
    }
    return url == NULL || *url == '\0' ? NULL : url;
}

static enum status find_way(struct session *session, struct node_options *options, struct error *err) {
    enum pooler pooler = POOLER_NONE;
    enum status status = pooler_find(options->url, session->db, &pooler, err);
    options->pooled = pooler == POOLER_OF_TRANSACTIONS;
    if (status == STATUS_OK && options->listen_url != NULL) {
        status = pooler_check_direct(options->listen_url, session->db, err);
        if (status != STATUS_OK) {
            error_wrap(err, "--listen-database");
        }
    }
    return status;
}

/* Everything that is stored and compared is the database's time; what is not are the times of log lines. */
static void note_skew(struct session *session) {
    struct db_result *result = NULL;
    struct timespec here;
    if (sync_run(session->db, NULL, sql_clock_ms.text, 0, NULL, &result, NULL) != STATUS_OK) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &here);
    int64_t ahead_ms = db_int64(result, 0, 0) - ((int64_t)here.tv_sec * 1000 + here.tv_nsec / 1000000);
    sync_result_free(result);
    if (ahead_ms > SKEW_MS || ahead_ms < -SKEW_MS) {
        log_event(LOG_WARN, "clock.skew", "database_ahead_ms=%" PRId64 " hint=%s", ahead_ms,
                  log_text("log lines have this host's time; all else goes by the database's"));
    }
}

enum exit_status run_find_way(const struct args *args, struct session *session, struct node_options *options) {
    options->url = session->database.url;
    options->listen_url = listen_url(args);
    struct error err = ERROR_NONE;
    enum status status = find_way(session, options, &err);
    if (status != STATUS_OK) {
        return report_error(&err);
    }
    note_skew(session);
    if (options->pooled) {
        log_event(LOG_INFO, "pooler.transactions", "statements=unnamed notify=%s",
                  options->listen_url != NULL ? "listen-database" : "off");
    }
    if (options->pooled && options->listen_url == NULL) {
        log_event(LOG_WARN, "pooler.polling", "hint=%s",
                  log_text("a pooler in transaction mode cannot LISTEN: new tasks are found by polling, within a second; "
                           "--listen-database URL names PostgreSQL itself"));
    }
    return EXIT_OK;
}

/* ---- the room ---- */

void connections_add(struct connections *connections, const struct definition *definition) {
    const struct pipeline_def *def = definition->def;
    for (int s = 0; s < def->stage_count; s++) {
        bool elsewhere = definition->elsewhere != NULL && definition->elsewhere[s];
        int workers = elsewhere ? 0 : def->stages[s].workers;
        bool is_sql = def->stages[s].kind == STAGE_SQL;
        bool is_handler = def->stages[s].kind == STAGE_HANDLER;
        connections->has_handlers |= workers > 0 && is_handler;
        connections->has_programs |= workers > 0 && !is_handler && !is_sql;
        connections->sql_workers += is_sql ? workers : 0;
        connections->sure += is_sql ? workers : 0;
        connections->most += is_sql || workers < HANDLER_LANES ? workers : HANDLER_LANES;
    }
    connections->most += def->source.present ? 1 : 0;
    connections->has_sources |= def->source.present;
}

void connections_describe(const struct connections *connections, struct buf *out) {
    buf_append_format(out, "%" PRId64 " connections", connections->sure);
    if (connections->sql_workers > 0) {
        buf_append_format(out, " (%" PRId64 ", and one for each of %" PRId64 " worker%s of sql stages)", CONNECTIONS_NONE.sure,
                          connections->sql_workers, text_plural(connections->sql_workers));
    }
}

/* INT64_MAX: not known. */
struct room {
    int64_t allowed, left;
};

static enum status find_room(struct db_sync *db, struct room *room, struct error *err) {
    struct db_result *result = NULL;
    enum status status = sync_run(db, NULL, sql_connections.text, 0, NULL, &result, err);
    if (status == STATUS_OK) {
        bool known = db_rows(result) > 0;
        *room = (struct room){known ? db_int64(result, 0, ROOM_ALLOWED) : INT64_MAX,
                              known ? db_int64(result, 0, ROOM_FREE) : INT64_MAX};
        sync_result_free(result);
    }
    return status;
}

/* True: the server can never give them, and that is said. */
static bool is_refused(const struct connections *connections, const struct room *room) {
    struct buf needs;
    if (connections->sure <= room->allowed) {
        return false;
    }
    buf_init(&needs, SIZE_MAX);
    connections_describe(connections, &needs);
    fprintf(stderr,
            "pgstage: this node needs %s, and the server gives this role %" PRId64
            ": lower `workers`, or raise max_connections\n",
            needs.data, room->allowed);
    buf_finish(&needs);
    return true;
}

enum exit_status connections_compare(struct db_sync *db, const char *url, const struct connections *connections) {
    struct room room;
    struct error err = ERROR_NONE;
    enum pooler pooler = POOLER_NONE;
    enum status status = pooler_find(url, db, &pooler, &err);
    if (status == STATUS_OK && pooler == POOLER_OF_TRANSACTIONS) {
        return EXIT_OK;
    }
    status = status == STATUS_OK ? find_room(db, &room, &err) : status;
    if (status != STATUS_OK) {
        return report_error(&err);
    }
    if (is_refused(connections, &room)) {
        return EXIT_REFUSED;
    }
    int64_t left = room.left < room.allowed ? room.left : room.allowed;
    if (connections->most > left) {
        fprintf(stderr, "pgstage: warning: this node may come to want %" PRId64 " connections, and there %s %" PRId64 " for it now\n",
                connections->most, left == 1 ? "is" : "are", left);
    }
    return EXIT_OK;
}

enum exit_status run_check_room(struct session *session, const struct definition *definitions, int count, bool pooled) {
    struct connections connections = CONNECTIONS_NONE;
    struct room room;
    struct error err = ERROR_NONE;
    if (pooled) {
        return EXIT_OK; /* the pooler's clients, not the server's connections */
    }
    if (find_room(session->db, &room, &err) != STATUS_OK) {
        return report_error(&err);
    }
    for (int i = 0; i < count; i++) {
        connections_add(&connections, &definitions[i]);
    }
    if (is_refused(&connections, &room)) {
        return EXIT_REFUSED;
    }
    if (connections.most > room.left) {
        log_event(LOG_WARN, "connections.scarce", "wanted=%" PRId64 " free=%" PRId64, connections.most, room.left);
    }
    return EXIT_OK;
}
