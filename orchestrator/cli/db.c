/* db.c - pgstage db: the embedded PostgreSQL, and psql on whatever database a command would use. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/command.h"
#include "cli/output.h"
#include "db/conninfo_env.h"

enum { HOME_MAX = 4096, EXIT_NO_PROGRAM = 127 };

static enum exit_status start(const char *home) {
    struct error err = ERROR_NONE;
    if (cluster_hold(home, &err) != STATUS_OK) {
        return report_error(&err);
    }
    printf("the embedded database runs until `pgstage db stop`\n");
    return output_finish(EXIT_OK);
}

static enum exit_status stop(const char *home) {
    struct error err = ERROR_NONE;
    int pid = 0;
    bool held = false;
    enum status status = cluster_state(home, &pid, &held, &err);
    if (status == STATUS_OK) {
        status = cluster_stop(home, &err);
    }
    if (status != STATUS_OK) {
        return report_error(&err);
    }
    printf(pid == 0 ? "the embedded database does not run\n" : "the embedded database has stopped\n");
    return output_finish(EXIT_OK);
}

static enum exit_status start_or_stop(const struct args *args, enum exit_status (*run)(const char *home)) {
    if (args->database != NULL) {
        return usage_error(args, "%s is for the embedded database, not for --database", args->positional[0]);
    }
    struct buf home;
    struct error err = ERROR_NONE;
    buf_init(&home, HOME_MAX);
    enum exit_status status =
        cluster_home(args->home, &home, &err) == STATUS_OK ? run(home.data) : report_error(&err);
    buf_finish(&home);
    return status;
}

static enum exit_status print_url(const struct args *args) {
    struct database database;
    struct error err = ERROR_NONE;
    if (database_locate(args->database, args->home, &database, &err) != STATUS_OK) {
        return report_error(&err);
    }
    /* Any libpq program takes that for its own variables. */
    printf("%s\n", database.url[0] == '\0' ? "postgresql://" : database.url);
    bool embedded = database.cluster != NULL;
    database_release(&database);
    struct buf home;
    buf_init(&home, HOME_MAX);
    int pid = 0;
    bool held = false;
    if (embedded && cluster_home(args->home, &home, &err) == STATUS_OK &&
        cluster_state(home.data, &pid, &held, &err) == STATUS_OK && pid == 0) {
        fprintf(stderr, "pgstage: it runs only while pgstage uses it; `pgstage db start` keeps it running\n");
    }
    buf_finish(&home);
    return output_finish(EXIT_OK);
}

/* In the child. A password goes by the environment: a command line is there for all to see. */
static __attribute__((noreturn)) void become_psql(const struct args *args, const char *url) {
    struct error err = ERROR_NONE;
    char *rest = NULL;
    if (conninfo_to_environment(url, &rest, &err) != STATUS_OK) {
        report_error(&err);
        _exit(EXIT_WRONG);
    }
    char **argv = mem_alloc(sizeof *argv * (size_t)(args->count + 3));
    int count = 0;
    argv[count++] = mem_copy_string("psql");
    if (rest != NULL) {
        argv[count++] = mem_copy_string("--dbname");
        argv[count++] = rest;
    }
    int first = args->count > 1 && strcmp(args->positional[1], "--") == 0 ? 2 : 1;
    for (int i = first; i < args->count; i++) {
        argv[count++] = args->positional[i];
    }
    execvp("psql", argv);
    if (errno == ENOENT) {
        fprintf(stderr, "pgstage: there is no psql in PATH: install PostgreSQL's client programs\n");
    } else {
        fprintf(stderr, "pgstage: cannot run psql: %s\n", strerror(errno));
    }
    _exit(EXIT_NO_PROGRAM);
}

/* psql's own exit status, or 128 and the signal that ended it, as a shell says it. */
static enum exit_status wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return EXIT_WRONG;
        }
    }
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return code == EXIT_NO_PROGRAM ? EXIT_WRONG : (enum exit_status)code;
}

static enum exit_status run_psql(const struct args *args) {
    struct database database;
    struct error err = ERROR_NONE;
    if (database_locate(args->database, args->home, &database, &err) != STATUS_OK) {
        return report_error(&err);
    }
    fflush(stdout);
    enum exit_status status = EXIT_WRONG;
    pid_t child = fork();
    if (child == 0) {
        become_psql(args, database.url);
    } else if (child < 0) {
        fprintf(stderr, "pgstage: cannot start psql: %s\n", strerror(errno));
    } else {
        /* Ctrl-C is psql's: it cancels a statement there. */
        signal(SIGINT, SIG_IGN);
        signal(SIGQUIT, SIG_IGN);
        status = wait_for(child);
    }
    database_release(&database);
    return status;
}

static enum exit_status run_db(const struct args *args) {
    const char *what = args->positional[0];
    bool is_psql = strcmp(what, "psql") == 0;
    if (!is_psql && args->count > 1) {
        return usage_error(args, "unexpected argument '%s'", args->positional[1]);
    }
    if (is_psql) {
        return run_psql(args);
    }
    if (strcmp(what, "url") == 0) {
        return print_url(args);
    }
    if (strcmp(what, "start") == 0) {
        return start_or_stop(args, start);
    }
    if (strcmp(what, "stop") == 0) {
        return start_or_stop(args, stop);
    }
    return usage_error(args, "'%s' is not start, stop, url or psql", text_shown(what));
}

const struct command command_db = {
    .name = "db",
    .usage = "start|stop|url|psql [ARGUMENTS OF PSQL...]",
    .summary = "the embedded PostgreSQL: keep it running, stop it, look into it",
    .min_positional = 1,
    .max_positional = -1,
    .pass_after = "psql",
    .run = run_db,
};
