/* run_database.h - what a node must know of the way to its database before it starts: a pooler between, a way of its own
 * for LISTEN, and whether there is room for its connections.
 */
#ifndef CLI_RUN_DATABASE_H
#define CLI_RUN_DATABASE_H

#include "cli/definitions.h"

/* Sets url, listen_url and pooled; logs what is noteworthy. EXIT_WRONG and EXIT_NO_DATABASE are printed. Borrowed: the URLs
 * live as long as `args`, `session` and the environment. */
enum exit_status run_find_way(const struct args *args, struct session *session, struct node_options *options);

/* EXIT_REFUSED, in words, when the server can never give the connections that the stages want; a warning when it cannot
 * now. */
enum exit_status run_check_room(struct session *session, const struct definition *definitions, int count, bool pooled);

#endif
