#include "db/pooler.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Transactions of the two clients in turn. An idle pooler gives the session that was used last, or the next one of a
 * circle: whatever the size of that, one of the two meets a session of the other's, or gets another one itself. */
static const int turns[] = {0, 1, 1, 0, 0, 1, 1, 0, 1};
enum { TURNS = sizeof turns / sizeof turns[0] };

static enum status ask(struct db_sync *db, const char *sql, char **text, struct error *err) {
    struct db_result *result = NULL;
    enum status code = sync_run(db, NULL, sql, 0, NULL, &result, err);
    if (code == STATUS_OK) {
        *text = mem_copy_string(db_rows(result) > 0 && !db_is_null(result, 0, 0) ? db_value(result, 0, 0) : "");
        sync_result_free(result);
    }
    return code;
}

static enum status session_of(struct db_sync *db, int64_t *pid, struct error *err) {
    char *text = NULL;
    enum status code = ask(db, "select pg_catalog.pg_backend_pid()", &text, err);
    *pid = code == STATUS_OK ? strtoll(text, NULL, 10) : 0;
    free(text);
    return code;
}

static enum status compare_sessions(struct db_sync *const clients[2], bool *shared, struct error *err) {
    int64_t pids[TURNS] = {0};
    *shared = false;
    for (int i = 0; i < TURNS; i++) {
        enum status code = session_of(clients[turns[i]], &pids[i], err);
        if (code != STATUS_OK) {
            return code;
        }
        for (int k = 0; k < i; k++) {
            *shared = *shared || (turns[i] == turns[k]) != (pids[i] == pids[k]);
        }
    }
    return STATUS_OK;
}

enum status pooler_find(const char *url, struct db_sync *db, enum pooler *pooler, struct error *err) {
    *pooler = POOLER_NONE;
    if (sync_has_own_session(db)) {
        return STATUS_OK;
    }
    struct db_sync *second = NULL;
    enum status code = sync_open(url, "probe", &second, err);
    bool shared = false;
    if (code == STATUS_OK) {
        struct db_sync *const clients[2] = {db, second};
        code = compare_sessions(clients, &shared, err);
    }
    sync_close(second);
    *pooler = shared ? POOLER_OF_TRANSACTIONS : POOLER_OF_SESSIONS;
    return code;
}

/* The server's identity is "" where it does not let us ask for it: then the names have to do. It is asked for by itself, for a
 * statement that names the function is refused even when it does not call it. */
static enum status find_place(struct db_sync *db, char **name, char **server, struct error *err) {
    char *may = NULL;
    enum status code = ask(db, "select pg_catalog.current_database()", name, err);
    if (code == STATUS_OK) {
        code = ask(db, "select pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'execute')", &may, err);
    }
    if (code == STATUS_OK) {
        const char *identity = "select ' of ' || system_identifier from pg_catalog.pg_control_system()";
        code = ask(db, may[0] == 't' ? identity : "select ''", server, err);
    }
    free(may);
    return code;
}

static bool is_same(const char *here, const char *server, const char *there, const char *other) {
    bool known = *server != '\0' && *other != '\0';
    return strcmp(here, there) == 0 && (!known || strcmp(server, other) == 0);
}

enum status pooler_check_direct(const char *url, struct db_sync *db, struct error *err) {
    struct db_sync *direct = NULL;
    enum pooler pooler = POOLER_NONE;
    char *here = NULL, *there = NULL, *server = NULL, *other = NULL;
    enum status code = sync_open(url, "probe", &direct, err);
    if (code == STATUS_OK) {
        code = pooler_find(url, direct, &pooler, err);
    }
    if (code == STATUS_OK) {
        code = find_place(db, &here, &server, err);
    }
    if (code == STATUS_OK) {
        code = find_place(direct, &there, &other, err);
    }
    if (code == STATUS_OK && pooler == POOLER_OF_TRANSACTIONS) {
        code = error_set(err, STATUS_INVALID, "the database to listen on is behind a pooler in transaction mode as well: name "
                                              "PostgreSQL itself");
    } else if (code == STATUS_OK && !is_same(here, server, there, other)) {
        code = error_set(err, STATUS_INVALID, "the database to listen on is another one (%s%s, not %s%s)", there, other, here,
                         server);
    }
    sync_close(direct);
    free(here);
    free(there);
    free(server);
    free(other);
    return code;
}
