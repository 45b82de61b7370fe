/* cluster_conf.c - settings and access rules.
 *
 * Nobody but the user who owns the home and the user whom the server runs as can connect: the
 * socket's folder is closed to others, and the kernel's word on who connects (peer) is mapped to
 * the one role `pgstage`, a superuser. ALTER SYSTEM comes after these settings and wins: that is
 * how a person tunes the server.
 */
#include "db/cluster_conf.h"

#include <errno.h>
#include <unistd.h>

enum { CONF_MAX = 1 << 20 };

/* A value in single quotes, as the lexer of postgresql.conf reads it. */
static void append_quoted(struct buf *out, const char *value) {
    buf_append_char(out, '\'');
    for (; *value != '\0'; value++) {
        if (*value == '\'' || *value == '\\') {
            buf_append_char(out, *value == '\'' ? '\'' : '\\');
        }
        buf_append_char(out, *value);
    }
    buf_append_char(out, '\'');
}

/* unix_socket_directories is a list of names: in double quotes a blank or a comma is part of one.
 */
static void append_folder_list(struct buf *out, const char *folder) {
    struct buf item;
    buf_init(&item, CONF_MAX);
    buf_append_char(&item, '"');
    for (; *folder != '\0'; folder++) {
        if (*folder == '"') {
            buf_append_char(&item, '"');
        }
        buf_append_char(&item, *folder);
    }
    buf_append_char(&item, '"');
    append_quoted(out, item.data);
    buf_finish(&item);
}

static void compose_settings(struct buf *out, const struct cluster_paths *paths,
                             const char *socket_folder) {
    buf_append_string(
        out, "# Written by pgstage before each start of the server: changes here are lost.\n"
             "# To tune the server use ALTER SYSTEM, which wins over this file.\n"
             "listen_addresses = ''\n"
             "port = 5432\n"
             "unix_socket_directories = ");
    append_folder_list(out, socket_folder);
    buf_append_string(
        out, "\n"
             "unix_socket_permissions = 0700\n"
             "max_connections = 100\n"
             "shared_buffers = 128MB\n"
             "cluster_name = 'pgstage'\n"
             "restart_after_crash = on\n"
             "# A backend whose client was killed ends its query and frees its locks.\n"
             "client_connection_check_interval = 10s\n"
             "# Queue statements are short; compiling a misestimated one costs more than it runs.\n"
             "jit = off\n"
             "# pgstage bounds the log: it renames a large one to postgresql.log.1.\n"
             "logging_collector = on\n"
             "log_destination = 'stderr'\n"
             "log_directory = ");
    append_quoted(out, paths->log);
    buf_append_string(out, "\n"
                           "log_filename = 'postgresql.log'\n"
                           "log_file_mode = 0600\n"
                           "log_rotation_age = 0\n"
                           "log_rotation_size = 0\n"
                           "log_line_prefix = '%m [%p] '\n"
                           "log_checkpoints = off\n"
                           "log_connections = off\n"
                           "log_disconnections = off\n");
}

static void compose_access(struct buf *out) {
    buf_append_string(
        out, "# Written by pgstage before each start of the server: changes here are lost.\n"
             "local all pgstage peer map=pgstage\n");
}

static void compose_names(struct buf *out, const struct server_user *user) {
    buf_append_format(
        out,
        "# Written by pgstage before each start of the server: changes here are lost.\n"
        "pgstage \"%s\" pgstage\n",
        user->owner);
    if (user->change) {
        buf_append_format(out, "pgstage \"%s\" pgstage\n", user->name);
    }
}

static enum status open_data(const char *data, int *folder, struct error *err) {
    *folder = folder_open(data);
    return *folder >= 0 ? STATUS_OK
                        : error_set_errno(err, STATUS_INVALID, errno, "%s cannot be opened", data);
}

enum status conf_include(const char *data, const struct server_user *user, struct error *err) {
    int folder;
    enum status status = open_data(data, &folder, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct buf conf;
    buf_init(&conf, CONF_MAX);
    if (!file_read_at(folder, "postgresql.conf", 0, &conf)) {
        status = error_set(err, STATUS_INVALID, "%s/postgresql.conf cannot be read", data);
    } else {
        buf_append_string(&conf, "\ninclude = 'pgstage.conf'\n");
        status = file_put_at(folder, "postgresql.conf", &conf, user->uid, user->gid, err);
    }
    buf_finish(&conf);
    close(folder);
    return status;
}

enum status conf_write(const struct cluster_paths *paths, const struct server_user *user,
                       const char *socket_folder, struct error *err) {
    int folder;
    enum status status = open_data(paths->data, &folder, err);
    if (status != STATUS_OK) {
        return status;
    }
    struct buf text;
    buf_init(&text, CONF_MAX);
    compose_settings(&text, paths, socket_folder);
    status = file_put_at(folder, "pgstage.conf", &text, user->uid, user->gid, err);
    if (status == STATUS_OK) {
        buf_clear(&text);
        compose_access(&text);
        status = file_put_at(folder, "pg_hba.conf", &text, user->uid, user->gid, err);
    }
    if (status == STATUS_OK) {
        buf_clear(&text);
        compose_names(&text, user);
        status = file_put_at(folder, "pg_ident.conf", &text, user->uid, user->gid, err);
    }
    buf_finish(&text);
    close(folder);
    return status;
}
