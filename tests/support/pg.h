/* pg.h - a private PostgreSQL for tests: one cluster a test program, on a Unix socket, without
 * fsync.
 *
 * The shared cluster is started in the main process before the first test and removed after the
 * last; tests run in processes of their own and find it through the environment. It goes as well
 * when the main process is killed. A test that stops or breaks the server starts a cluster of its
 * own. Failures end the test with a message.
 */
#ifndef SUPPORT_PG_H
#define SUPPORT_PG_H

#include <stdint.h>

/* ---- the shared cluster ---- */

const char *pg_url(void);         /* of its database "postgres" */
const char *pg_socket_path(void); /* of the socket itself, for a proxy */

/* Ownership: free() the URL. The databases go with the cluster. */
char *pg_new_database(void);          /* empty */
char *pg_new_migrated_database(void); /* a clone of one that was migrated once */

/* ---- any database ---- */

const char *pg_database_of(
    const char *url); /* the name in a URL that this module made; borrowed until the next call */
void pg_exec(const char *url, const char *sql);   /* one or several statements */
char *pg_text(const char *url, const char *sql);  /* first value, "" when null or none; free() it */
int64_t pg_int(const char *url, const char *sql); /* first value */

/* ---- a cluster of one's own ---- */

struct pg_cluster;

struct pg_cluster *pg_cluster_start(void);
struct pg_cluster *pg_cluster_start_standby(const struct pg_cluster *primary); /* pg_promote() ends that */
const char *pg_cluster_folder(const struct pg_cluster *cluster);
const char *pg_cluster_url(const struct pg_cluster *cluster);
const char *pg_cluster_socket_path(const struct pg_cluster *cluster);
void pg_cluster_stop_server(struct pg_cluster *cluster);  /* fast: sessions are told */
void pg_cluster_crash_server(struct pg_cluster *cluster); /* immediate: as after a power cut */
void pg_cluster_start_server(struct pg_cluster *cluster); /* returns when it answers */
void pg_cluster_remove(struct pg_cluster *cluster);

/* One that another process keeps: removing it only forgets it. */
struct pg_cluster *pg_cluster_find(const char *folder);

/* Ends the test with a message. */
void pg_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
