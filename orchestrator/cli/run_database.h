/* run_database.h - what a node must know of the way to its database before it starts: a pooler between, a way of its own
 * for LISTEN, and whether there is room for its connections.
 */
#ifndef CLI_RUN_DATABASE_H
#define CLI_RUN_DATABASE_H

#include "cli/definitions.h"

/* Sets url, listen_url and pooled; logs what is noteworthy. EXIT_WRONG and EXIT_NO_DATABASE are printed. Borrowed: the URLs
 * live as long as `args`, `session` and the environment. */
enum exit_status run_find_way(const struct args *args, struct session *session, struct node_options *options);

/* The connections of a node: three, one for each worker of an sql stage, and what handlers that queue SQL and scans may come
 * to want besides. */
struct connections {
    int64_t sql_workers, sure, most;
    bool has_handlers, has_programs, has_sources; /* that want `most` */
};
#define CONNECTIONS_NONE ((struct connections){.sure = 3, .most = 3})
/* Adds what the stages of a definition want that are served here. */
void connections_add(struct connections *connections, const struct definition *definition);
/* "9 connections (3, and one for each of 6 workers of sql stages)". */
void connections_describe(const struct connections *connections, struct buf *out);
/* For check --against-db, with a connection that `url` has led to: what run_check_room would refuse, as it does; what it would
 * warn of is printed. */
enum exit_status connections_compare(struct db_sync *db, const char *url, const struct connections *connections);

/* EXIT_REFUSED, in words, when the server can never give the connections that the stages want; a warning when it cannot
 * now. */
enum exit_status run_check_room(struct session *session, const struct definition *definitions, int count, bool pooled);

#endif
