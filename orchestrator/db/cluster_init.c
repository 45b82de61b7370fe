/* cluster_init.c - making the data folder.
 *
 * initdb writes to HOME/pg.new, and one rename makes it HOME/pg: a data folder is complete or is
 * not there. What an interrupted initdb left is removed first; that it has ended, and its helpers
 * too, the caller knows by the lock.
 */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "db/cluster_conf.h"
#include "db/cluster_server.h"

enum { INITDB_OUTPUT_MAX = 256 * 1024 };

/* Keys compare bytewise in either; C.UTF-8 also knows the letters beyond ASCII for lower() and
 * regular expressions. */
static const char *choose_locale(void) {
    locale_t locale = newlocale(LC_CTYPE_MASK | LC_COLLATE_MASK, "C.UTF-8", (locale_t)0);
    if (locale == (locale_t)0) {
        return "--locale=C";
    }
    freelocale(locale);
    return "--locale=C.UTF-8";
}

/* initdb's last line that tells a reason; it ends with what it did about the folder. */
static const char *find_reason(char *output) {
    const char *reason = NULL, *last = "";
    char *rest = output;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (strstr(line, "error:") != NULL || strstr(line, "FATAL:") != NULL ||
            strstr(line, "PANIC:") != NULL) {
            reason = line;
        }
        if (line[0] != '\0') {
            last = line;
        }
    }
    return reason != NULL ? reason : last;
}

static enum status run_initdb(const struct server *server, const struct server_programs *programs,
                              int lock, struct error *err) {
    const char *const argv[] = {
        programs->initdb,
        "-D",
        server->paths.fresh,
        "-U",
        "pgstage",
        "-E",
        "UTF8",
        choose_locale(),
        "--lc-messages=C",
        "--auth-local=peer",
        "--auth-host=reject",
        "--no-instructions",
        NULL,
    };
    const struct spawn spawn = {.user = &server->user, .argv = argv, .keep = lock};
    struct buf output;
    buf_init(&output, INITDB_OUTPUT_MAX);
    int wait_status = -1;
    enum status status = spawn_run(&spawn, NULL, &output, &wait_status, err);
    if (status == STATUS_OK && WIFSIGNALED(wait_status)) {
        status =
            error_set(err, STATUS_UNAVAILABLE, "making the database in %s was ended by signal %d",
                      server->paths.home, WTERMSIG(wait_status));
    } else if (status == STATUS_OK && (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0)) {
        status = error_set(err, STATUS_UNAVAILABLE, "the database in %s cannot be made: %s",
                           server->paths.home, find_reason(output.data));
    }
    buf_finish(&output);
    return status;
}

static enum status put_in_place(const struct server *server, struct error *err) {
    if (rename(server->paths.fresh, server->paths.data) != 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "%s cannot be renamed to %s",
                               server->paths.fresh, server->paths.data);
    }
    int home = folder_open(server->paths.home);
    if (home >= 0) {
        fsync(home);
        close(home);
    }
    return STATUS_OK;
}

enum status server_make_data(const struct server *server, const struct server_programs *programs,
                             int lock, struct error *err) {
    const struct server_user *user = &server->user;
    log_event(LOG_INFO, "db.cluster.init", "home=%s version=%d", log_text(server->paths.home),
              programs->major);
    enum status status = folder_remove_all(server->paths.fresh, err);
    if (status == STATUS_OK) {
        status = folder_ensure(server->paths.fresh, user->uid, user->gid, 0700, err);
    }
    if (status == STATUS_OK) {
        status = run_initdb(server, programs, lock, err);
    }
    if (status == STATUS_OK) {
        status = conf_include(server->paths.fresh, user, err);
    }
    if (status == STATUS_OK) {
        return put_in_place(server, err);
    }
    enum status removed =
        folder_remove_all(server->paths.fresh, NULL); /* the next attempt does it too */
    (void)removed;
    return status;
}
