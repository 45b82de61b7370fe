/* cluster_launch.c - starting the server, and telling why it did not start. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/cluster_database.h"
#include "db/cluster_process.h"
#include "db/cluster_server.h"

enum {
    READY_MAX_MS = 5 * 60 * 1000, /* recovery after a crash reads up to max_wal_size of log */
    READY_STEP_MS = 10,
    REASON_TAIL_BYTES = 16 * 1024,
};

/* Copies the text of the last line that tells a reason; false when there is none. */
static bool last_reason(char *log, char *reason, size_t size) {
    static const char *const marks[] = {"FATAL:  ", "PANIC:  ", "postgres: "};
    bool found = false;
    char *rest = log;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
            const char *at = strstr(line, marks[i]);
            if (at != NULL) {
                size_t length = strnlen(at + strlen(marks[i]), size - 1);
                memcpy(reason, at + strlen(marks[i]), length);
                reason[length] = '\0';
                found = true;
            }
        }
    }
    return found;
}

/* What the server wrote since its start: to start.log until its collector ran, to postgresql.log
 * from then on. */
static enum status explain(const struct server *server, int log_folder, off_t log_begin,
                           struct error *err) {
    char reason[512] = "it told no reason";
    struct buf text;
    buf_init(&text, REASON_TAIL_BYTES);
    if (!file_read_at(log_folder, "postgresql.log", log_begin, &text) ||
        !last_reason(text.data, reason, sizeof reason)) {
        buf_clear(&text);
        if (file_read_at(log_folder, "start.log", -(off_t)REASON_TAIL_BYTES, &text)) {
            (void)last_reason(text.data, reason, sizeof reason);
        }
    }
    buf_finish(&text);
    return error_set(
        err, STATUS_UNAVAILABLE,
        "the database server of %s did not start: %s (more in start.log and postgresql.log in "
        "%s)",
        server->paths.home, reason, server->paths.log);
}

static enum status wait_ready(const struct server *server, pid_t pid, const char *socket_folder,
                              int log_folder, off_t log_begin, struct error *err) {
    int64_t begin = clock_now_ms(&clock_boottime);
    for (;;) {
        bool ready = false;
        pid_t found = process_find_postmaster(server->paths.data, server->user.uid, &ready);
        if (found != 0 && ready && database_ask(socket_folder, &server->user) == ANSWER_READY) {
            return STATUS_OK;
        }
        if (!process_is_alive(pid)) {
            return explain(server, log_folder, log_begin, err);
        }
        if (clock_now_ms(&clock_boottime) - begin > READY_MAX_MS) {
            return error_set(
                err, STATUS_TIMEOUT,
                "the database server of %s (process %ld) was started and is not ready after "
                "%d s: look into %s",
                server->paths.home, (long)pid, READY_MAX_MS / 1000, server->paths.log_file);
        }
        process_pause_ms(READY_STEP_MS);
    }
}

static off_t size_at(int folder, const char *name) {
    struct stat info;
    return fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 ? info.st_size : 0;
}

enum status server_launch(const struct server *server, const struct server_programs *programs,
                          int lock, const char *socket_folder, struct error *err) {
    const char *const argv[] = {programs->postgres, "-D", server->paths.data, NULL};
    const struct spawn spawn = {.user = &server->user, .argv = argv, .keep = lock};
    int log_folder = folder_open(server->paths.log);
    if (log_folder < 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "%s cannot be opened",
                               server->paths.log);
    }
    off_t log_begin = size_at(log_folder, "postgresql.log");
    enum status status = STATUS_INVALID;
    int output = file_create_at(log_folder, "start.log", server->user.uid, server->user.gid, err);
    if (output >= 0) {
        pid_t pid;
        status = spawn_detached(&spawn, output, &pid, err);
        close(output);
        if (status == STATUS_OK) {
            status = wait_ready(server, pid, socket_folder, log_folder, log_begin, err);
        }
        if (status == STATUS_OK) {
            log_event(LOG_INFO, "db.cluster.start", "home=%s pid=%ld version=%d",
                      log_text(server->paths.home), (long)pid, programs->major);
        }
    }
    close(log_folder);
    return status;
}
