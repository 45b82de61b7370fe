/* cluster_programs.c - finding postgres and initdb.
 *
 * A candidate counts when the server's user can run its postgres, which also tells the version.
 */
#include "db/cluster_programs.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"

struct search {
    const struct server_user *user;
    int major;
    struct server_programs *found;
    int other; /* a version that was found and does not do */
    char *other_folder;
    char *unrunnable; /* a program that is there and that the server's user cannot run */
};

/* 0 when the program is not PostgreSQL's. */
static int parse_major(const char *text) {
    static const char mark[] = "(PostgreSQL) ";
    const char *at = strstr(text, mark);
    return at == NULL ? 0 : (int)strtol(at + sizeof mark - 1, NULL, 10);
}

static bool ask(const struct server_user *user, const char *program, const char *option,
                struct buf *answer) {
    const char *const argv[] = {program, option, NULL};
    const struct spawn spawn = {.user = user, .argv = argv, .keep = -1};
    int wait_status = -1;
    return spawn_run(&spawn, NULL, answer, &wait_status, NULL) == STATUS_OK &&
           WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
}

/* True ends the search. */
static bool try_folder(struct search *search, const char *folder) {
    if (folder[0] != '/') {
        return false;
    }
    char *postgres = mem_format("%s/postgres", folder);
    char *initdb = mem_format("%s/initdb", folder);
    struct buf answer;
    buf_init(&answer, 4096);
    int major = 0;
    if (access(postgres, X_OK) == 0 && access(initdb, X_OK) == 0) {
        if (ask(search->user, postgres, "--version", &answer)) {
            major = parse_major(answer.data);
        } else if (search->unrunnable == NULL) {
            search->unrunnable = mem_copy_string(postgres);
        }
    }
    bool fits = search->major != 0 ? major == search->major : major >= PROGRAMS_MAJOR_MIN;
    if (fits) {
        *search->found =
            (struct server_programs){.postgres = postgres, .initdb = initdb, .major = major};
    } else {
        if (major > search->other) {
            search->other = major;
            free(search->other_folder);
            search->other_folder = mem_copy_string(folder);
        }
        free(postgres);
        free(initdb);
    }
    buf_finish(&answer);
    return fits;
}

static bool try_path(struct search *search) {
    char *path = mem_copy_string(getenv("PATH"));
    bool found = false;
    char *rest = path;
    for (char *folder; !found && rest != NULL && (folder = strsep(&rest, ":")) != NULL;) {
        found = try_folder(search, folder);
    }
    free(path);
    return found;
}

static int newest_first(const void *a, const void *b) {
    return strverscmp(*(char *const *)b, *(char *const *)a);
}

static bool try_usual(struct search *search) {
    static const char *const patterns[] = {"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
                                           "/usr/local/pgsql/bin"};
    bool found = false;
    for (size_t i = 0; !found && i < sizeof patterns / sizeof patterns[0]; i++) {
        glob_t names;
        if (glob(patterns[i], 0, NULL, &names) == 0) {
            qsort(names.gl_pathv, names.gl_pathc, sizeof names.gl_pathv[0], newest_first);
            for (size_t n = 0; !found && n < names.gl_pathc; n++) {
                found = try_folder(search, names.gl_pathv[n]);
            }
        }
        globfree(&names);
    }
    return found;
}

static bool try_pg_config(struct search *search) {
    char *path = mem_copy_string(getenv("PATH"));
    bool found = false;
    char *rest = path;
    for (char *folder; !found && rest != NULL && (folder = strsep(&rest, ":")) != NULL;) {
        char *program = mem_format("%s/pg_config", folder);
        struct buf answer;
        buf_init(&answer, 4096);
        if (folder[0] == '/' && access(program, X_OK) == 0 &&
            ask(search->user, program, "--bindir", &answer)) {
            answer.data[strcspn(answer.data, "\n")] = '\0';
            found = try_folder(search, answer.data);
        }
        buf_finish(&answer);
        free(program);
    }
    free(path);
    return found;
}

static enum status explain(const struct search *search, const char *only, const char *data,
                           struct error *err) {
    if (search->other != 0 && search->major != 0) {
        return error_set(
            err, STATUS_CONFLICT,
            "the database in %s was made by PostgreSQL %d, but the server programs in %s "
            "are version %d: install that version (for example `apt-get install "
            "postgresql-%d`), or bring the data to the new one with pg_upgrade",
            data, search->major, search->other_folder, search->other, search->major);
    }
    if (search->other != 0) {
        return error_set(
            err, STATUS_NOT_FOUND,
            "the server programs in %s are PostgreSQL %d, and %d is the oldest that pgstage "
            "runs on: install a newer one (for example `apt-get install postgresql-%d`), or "
            "name a database with --database",
            search->other_folder, search->other, PROGRAMS_MAJOR_MIN, PROGRAMS_MAJOR_MIN);
    }
    if (search->unrunnable != NULL) {
        return error_set(
            err, STATUS_NOT_FOUND,
            "the user %s, as whom the database server runs, cannot run %s: install "
            "PostgreSQL where all users can (for example `apt-get install postgresql-%d`), "
            "or name a database with --database",
            search->user->name, search->unrunnable, PROGRAMS_MAJOR_MIN);
    }
    return error_set(
        err, STATUS_NOT_FOUND,
        "PostgreSQL's server programs (postgres, initdb) are not in %s: install them (for "
        "example `apt-get install postgresql-%d`), name their folder in PGSTAGE_PG_BINDIR, or "
        "name a database with --database",
        only != NULL ? only : "PATH, /usr/lib/postgresql/*/bin or `pg_config --bindir`",
        search->major != 0 ? search->major : PROGRAMS_MAJOR_MIN);
}

enum status programs_find(const struct server_user *user, int major, const char *data,
                          struct server_programs *programs, struct error *err) {
    *programs = (struct server_programs){0};
    struct search search = {.user = user, .major = major, .found = programs};
    const char *only = getenv("PGSTAGE_PG_BINDIR");
    bool found;
    if (only != NULL && only[0] != '\0') {
        found = try_folder(&search, only);
    } else {
        only = NULL;
        found = try_path(&search) || try_usual(&search) || try_pg_config(&search);
    }
    enum status status = found ? STATUS_OK : explain(&search, only, data, err);
    free(search.other_folder);
    free(search.unrunnable);
    return status;
}

void programs_finish(struct server_programs *programs) {
    free(programs->postgres);
    free(programs->initdb);
    *programs = (struct server_programs){0};
}
