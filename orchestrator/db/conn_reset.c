/* conn_reset.c - the session as it was before a transaction of somebody else's statements.
 *
 * What DISCARD ALL does, which cannot share a sync with what it follows, but for two things: our own prepared statements
 * stay (preparing them anew for each transaction would cost more than all the rest), and so does what sequences have in
 * their CACHE, which would be lost. Most of it are commands that do nothing when there is nothing to undo.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "db/conn_private.h"

/* First what the others could depend on. RESET ALL leaves out the role; the role that a session begins with may be set for
 * the user. */
static const char *const commands[] = {
    "RESET SESSION AUTHORIZATION", "RESET ROLE", "RESET ALL", "CLOSE ALL", "UNLISTEN *", "DISCARD TEMP",
};

/* Session locks outlive even a rollback, and so do prepared statements. A pooler in session mode sets name and encoding when
 * it gives the session out, so that for the server they are nothing that the session began with. */
static const char unlock_and_look[] =
    "select exists (select from pg_catalog.pg_prepared_statements p where p.from_sql), pg_catalog.pg_advisory_unlock_all(),"
    " pg_catalog.set_config('application_name', $1, false), pg_catalog.set_config('client_encoding', $2, false)";

/* Behind a pooler in transaction mode: what is left has to go at once, and name and encoding are the pooler's to set. */
static const char unlock_pooled[] =
    "do $$ declare prepared text; begin perform pg_catalog.pg_advisory_unlock_all();"
    " for prepared in select p.name from pg_catalog.pg_prepared_statements p where p.from_sql loop"
    " execute pg_catalog.format('deallocate %I', prepared); end loop; end $$";

void reset_note_beginning(struct db_conn *conn) {
    if (conn->resets) {
        free(conn->name);
        free(conn->encoding);
        conn->name = mem_copy_string(PQparameterStatus(conn->pg, "application_name"));
        conn->encoding = mem_copy_string(PQparameterStatus(conn->pg, "client_encoding"));
    }
}

static bool queue_own(struct db_conn *conn) {
    const struct db_param params[] = {DB_TEXT(conn->name), DB_TEXT(conn->encoding)};
    const struct db_statement look = {
        .name = "reset", .text = unlock_and_look, .param_count = 2, .params = params};
    const struct db_statement settings = {.name = "settings", .text = conn->settings};
    return request_queue_named(conn, ENTRY_LEFT, &look, -1) &&
           (conn->settings == NULL || request_queue_named(conn, ENTRY_RESET, &settings, -1));
}

bool reset_queue(struct db_conn *conn) {
    struct conn_request *request = conn->request;
    if (!request->resets) {
        return true;
    }
    request->reset_at = request->entry_count;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (!request_queue_command(conn, ENTRY_RESET, commands[i])) {
            return false;
        }
    }
    return conn->pooled ? request_queue_command(conn, ENTRY_RESET, unlock_pooled) : queue_own(conn);
}

bool reset_has_rest(const struct conn_request *request) {
    return request->left_prepared;
}

bool reset_queue_rest(struct db_conn *conn) {
    conn->request->left_prepared = false;
    request_forget_prepared(conn);
    return request_queue_command(conn, ENTRY_RESET, "DEALLOCATE ALL");
}
