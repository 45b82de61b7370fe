/* cluster_conf.h - the files that configure the server. */
#ifndef DB_CLUSTER_CONF_H
#define DB_CLUSTER_CONF_H

#include "base/error.h"
#include "db/cluster_paths.h"
#include "db/cluster_spawn.h"

/* Makes postgresql.conf of a new data folder include pgstage.conf. */
enum status conf_include(const char *data, const struct server_user *user,
                         struct error *err) MUST_CHECK;
/* Writes pgstage.conf, pg_hba.conf and pg_ident.conf; before every start, because paths and names
 * may have changed. */
enum status conf_write(const struct cluster_paths *paths, const struct server_user *user,
                       const char *socket_folder, struct error *err) MUST_CHECK;

#endif
