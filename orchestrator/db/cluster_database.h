/* cluster_database.h - talking to the embedded server over its socket, just enough to know that it
 * is usable. */
#ifndef DB_CLUSTER_DATABASE_H
#define DB_CLUSTER_DATABASE_H

#include "base/buf.h"
#include "base/error.h"
#include "db/cluster_spawn.h"

enum answer {
    ANSWER_NONE, /* nobody listens */
    ANSWER_BUSY, /* it starts, recovers or stops */
    ANSWER_READY,
};

enum answer database_ask(const char *socket_folder, const struct server_user *user);
/* Makes the database `pgstage` when it is missing, and sees that this user may connect to it. */
enum status database_ensure(const char *socket_folder, const struct server_user *user,
                            struct error *err) MUST_CHECK;
/* Makes the server open its log file anew. */
enum status database_reopen_log(const char *socket_folder, const struct server_user *user,
                                struct error *err) MUST_CHECK;
void database_append_url(struct buf *url, const char *socket_folder);

#endif
