#include "cli/run_database.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "db/pooler.h"
#include "sql/statements.h"

enum { FIXED_CONNECTIONS = 3, HANDLER_LANES = 2, SKEW_MS = 5000 };
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

struct demand {
    int64_t sure, most; /* what the SQL stages want; with handlers that queue SQL, and scans */
};

static struct demand demand_of(const struct definition *definitions, int count) {
    struct demand demand = {FIXED_CONNECTIONS, FIXED_CONNECTIONS};
    for (int i = 0; i < count; i++) {
        const struct pipeline_def *def = definitions[i].def;
        for (int s = 0; s < def->stage_count; s++) {
            bool elsewhere = definitions[i].elsewhere != NULL && definitions[i].elsewhere[s];
            int workers = elsewhere ? 0 : def->stages[s].workers;
            bool is_sql = def->stages[s].kind == STAGE_SQL;
            demand.sure += is_sql ? workers : 0;
            demand.most += is_sql || workers < HANDLER_LANES ? workers : HANDLER_LANES;
        }
        demand.most += def->source.present ? 1 : 0;
    }
    return demand;
}

enum exit_status run_check_room(struct session *session, const struct definition *definitions, int count, bool pooled) {
    struct db_result *room = NULL;
    if (pooled) {
        return EXIT_OK; /* the pooler's clients, not the server's connections */
    }
    struct error err = ERROR_NONE;
    if (sync_run(session->db, NULL, sql_connections.text, 0, NULL, &room, &err) != STATUS_OK) {
        return report_error(&err);
    }
    struct demand demand = demand_of(definitions, count);
    int64_t allowed = db_rows(room) == 0 ? INT64_MAX : db_int64(room, 0, ROOM_ALLOWED);
    int64_t left = db_rows(room) == 0 ? INT64_MAX : db_int64(room, 0, ROOM_FREE);
    sync_result_free(room);
    if (demand.sure > allowed) {
        fprintf(stderr,
                "pgstage: this node needs %" PRId64 " connections (%d, and one for each worker of an sql stage), and the server "
                "gives this role %" PRId64 ": lower `workers`, or raise max_connections\n",
                demand.sure, FIXED_CONNECTIONS, allowed);
        return EXIT_REFUSED;
    }
    if (demand.most > left) {
        log_event(LOG_WARN, "connections.scarce", "wanted=%" PRId64 " free=%" PRId64, demand.most, left);
    }
    return EXIT_OK;
}
