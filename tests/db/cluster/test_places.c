/* Which home, which socket, which database. */
#include <criterion/criterion.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "db/cluster.h"
#include "db/cluster_paths.h"
#include "db/locate.h"
#include "place.h"

TestSuite(cluster_places, .init = place_open, .fini = place_close, .timeout = 300);

static void use_and_release(char *url, size_t size) {
    struct cluster *cluster = NULL;
    ASSERT_OK(cluster_use(home, &cluster, err));
    snprintf(url, size, "%s", cluster_url(cluster));
    cr_expect_str_eq(sql(url, "SELECT 1"), "1");
    cluster_release(cluster);
    cr_expect_eq(server_process(), 0);
}

static void long_home(void) {
    char name[161];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    place_name(name);
    place_fill();
}

Test(cluster_places, socket_of_a_long_home_moves_to_a_private_folder) {
    struct cluster *cluster = NULL;
    char target[256], expected[300];
    struct stat info;
    long_home();
    ASSERT_OK(cluster_use(home, &cluster, err));
    ssize_t length = readlink(in_home("run"), target, sizeof target - 1);
    cr_assert(length > 0);
    target[length] = '\0';
    cr_assert_eq(lstat(target, &info), 0);
    cr_expect(S_ISDIR(info.st_mode) && (info.st_mode & 07777) == 0700);
    cr_expect_eq(info.st_uid, server_uid());
    snprintf(expected, sizeof expected, "host=%s port=5432 dbname=pgstage user=pgstage", target);
    cr_expect_str_eq(cluster_url(cluster), expected);
    cr_expect_str_eq(sql(cluster_url(cluster), "SELECT 1"), "1");

    /* Another process finds the same one whatever its environment says. */
    setenv("XDG_RUNTIME_DIR", folder, 1);
    struct user user = user_start();
    user_await(&user);
    user_end(&user);
    cluster_release(cluster);
    cr_expect_not(exists(target));
    cr_expect_not(exists(in_home("run")));
}

Test(cluster_places, foreign_folder_in_the_sockets_place_is_not_trusted) {
    char target[128], url[512];
    long_home();
    snprintf(target, sizeof target, "%s/taken", folder);
    cr_assert_eq(mkdir(target, 0777), 0);
    cr_assert_eq(chmod(target, 0777), 0);
    cr_assert_eq(symlink(target, in_home("run")), 0);
    use_and_release(url, sizeof url);
    cr_expect_null(strstr(url, target));
    cr_expect(exists(target));
}

Test(cluster_places, lost_socket_folder_is_made_again) {
    struct cluster *first = NULL, *second = NULL;
    char target[256];
    long_home();
    ASSERT_OK(cluster_use(home, &first, err));
    ssize_t length = readlink(in_home("run"), target, sizeof target - 1);
    cr_assert(length > 0);
    target[length] = '\0';
    ASSERT_OK(folder_remove_all(target, err));
    ASSERT_OK(cluster_use(home, &second, err));
    cr_expect_str_eq(cluster_url(second), cluster_url(first));
    cr_expect_str_eq(sql(cluster_url(first), "SELECT 1"), "1");
    cluster_release(second);
    cluster_release(first);
    cr_expect_eq(server_process(), 0);
}

Test(cluster_places, names_with_blanks_quotes_and_backslashes) {
    char url[512];
    place_name("it's \"a\" \\b\\ $HOME; folder%s");
    place_fill();
    use_and_release(url, sizeof url);
    ASSERT_CONTAINS(url, "host='/tmp/");
    ASSERT_CONTAINS(url, "it\\'s \"a\" \\\\b\\\\ $HOME; folder%s/run' port");
}

Test(cluster_places, first_start_with_an_awkward_name) {
    char url[512];
    place_name("it's \"a\" \\b\\ $HOME; `x`");
    use_and_release(url, sizeof url);
}

Test(cluster_places, comma_in_the_home_moves_the_socket) {
    char url[512];
    place_name("a,b");
    place_fill();
    use_and_release(url, sizeof url);
    cr_expect_null(strstr(url, "a,b"));
}

Test(cluster_places, moved_home_works_at_its_new_place) {
    struct cluster *cluster = NULL;
    char url[512], before[512];
    place_fill();
    ASSERT_OK(cluster_use(home, &cluster, err));
    sql(cluster_url(cluster), "CREATE TABLE kept AS SELECT 42 AS n");
    cluster_release(cluster);
    snprintf(before, sizeof before, "%s", home);
    snprintf(home, sizeof home, "%s/elsewhere", folder);
    cr_assert_eq(rename(before, home), 0);
    use_and_release(url, sizeof url);
    ASSERT_CONTAINS(url, "/elsewhere/run");
    cr_expect(exists(in_home("log/postgresql.log")));
}

static char *home_of(const char *option) {
    struct buf path;
    buf_init(&path, 4096);
    ASSERT_OK(cluster_home(option, &path, err));
    char *home_path = buf_take(&path);
    buf_finish(&path);
    return home_path;
}

static void expect_home(const char *option, const char *expected, mode_t mode) {
    struct stat info;
    char *path = home_of(option);
    cr_expect_str_eq(path, expected);
    cr_assert_eq(stat(path, &info), 0);
    cr_expect_eq(info.st_mode & 07777, mode, "%o", info.st_mode);
    free(path);
}

Test(cluster_places, home_is_the_option_then_the_variable) {
    char path[128];
    mode_t mode = geteuid() == 0 ? 0711 : 0700;
    umask(077);
    snprintf(path, sizeof path, "%s/a/b//c/", folder);
    char *expected = mem_format("%s/a/b/c", folder);
    setenv("PGSTAGE_HOME", "/nonexistent", 1);
    expect_home(path, expected, mode);
    setenv("PGSTAGE_HOME", path, 1);
    expect_home(NULL, expected, mode);
    cr_assert_eq(chdir(folder), 0);
    expect_home("./a/../a/b/c", expected, mode);
    free(expected);

    struct error err = ERROR_NONE;
    struct buf out;
    buf_init(&out, 4096);
    cr_expect_eq(cluster_home("", &out, &err), STATUS_INVALID);
    error_clear(&err);
    cr_expect_eq(cluster_home("/proc/none/of/this", &out, &err), STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "/proc/none");
    buf_finish(&out);
}

/* As an ordinary user: state folder, own server. */
static int live_as_nobody(char *text, size_t size) {
    struct cluster *cluster = NULL;
    struct error err = ERROR_NONE;
    struct buf path;
    struct stat info;
    become("nobody");
    setenv("XDG_STATE_HOME", folder, 1);
    buf_init(&path, 4096);
    int result = 0;
    if (cluster_home(NULL, &path, &err) != STATUS_OK ||
        cluster_use(path.data, &cluster, &err) != STATUS_OK) {
        result = 1;
    } else {
        char *data = mem_format("%s/pg", path.data);
        result = stat(path.data, &info) != 0 || (info.st_mode & 07777) != 0700              ? 2
                 : stat(data, &info) != 0 || info.st_uid != getuid()                        ? 3
                 : strcmp(sql(cluster_url(cluster), "SELECT current_user"), "pgstage") != 0 ? 5
                                                                                            : 0;
        free(data);
        cluster_release(cluster);
    }
    snprintf(text, size, "%s", err.text);
    buf_finish(&path);
    return result;
}

Test(cluster_places, ordinary_user_runs_a_server_of_its_own) {
    char text[1024], path[128];
    place_needs_root();
    const struct passwd *nobody = getpwnam("nobody");
    cr_assert_not_null(nobody);
    snprintf(path, sizeof path, "%s/state", folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert_eq(chown(path, nobody->pw_uid, nobody->pw_gid), 0);
    snprintf(folder, sizeof folder, "%.50s", path);
    int result = in_child(live_as_nobody, text, sizeof text);
    *strrchr(folder, '/') = '\0';
    cr_expect_eq(result, 0, "%d %s", result, text);
}

Test(cluster_places, database_that_is_named_needs_no_cluster) {
    static const char *const names[] = {"PGHOST",     "PGHOSTADDR", "PGPORT",
                                        "PGDATABASE", "PGUSER",     "PGSERVICE"};
    enum { NAME_COUNT = sizeof names / sizeof names[0] };
    struct database database;
    unsetenv("PGSTAGE_DATABASE_URL");
    for (int i = 0; i < NAME_COUNT; i++) {
        unsetenv(names[i]);
    }
    for (int i = 0; i < NAME_COUNT; i++) {
        setenv(names[i], "x", 1);
        ASSERT_OK(database_locate(NULL, home, &database, err));
        cr_expect_str_eq(database.url, "");
        cr_expect_null(database.cluster);
        database_release(&database);
        unsetenv(names[i]);
    }
    setenv("PGHOST", "x", 1);
    setenv("PGSTAGE_DATABASE_URL", "postgresql://variable/db", 1);
    ASSERT_OK(database_locate(NULL, home, &database, err));
    cr_expect_str_eq(database.url, "postgresql://variable/db");
    database_release(&database);
    ASSERT_OK(database_locate("dbname=option", home, &database, err));
    cr_expect_str_eq(database.url, "dbname=option");
    cr_expect_null(database.cluster);
    database_release(&database);
    database_release(&database);
    cr_expect_not(exists(in_home("pg")));

    unsetenv("PGHOST");
    setenv("PGSTAGE_DATABASE_URL", "", 1); /* empty is not set */
    place_fill();
    ASSERT_OK(database_locate(NULL, home, &database, err));
    cr_assert_not_null(database.cluster);
    cr_expect_str_eq(sql(database.url, "SELECT current_database()"), "pgstage");
    database_release(&database);
    cr_expect_eq(server_process(), 0);
}

/* Nothing in the environment may lead the start elsewhere. */
Test(cluster_places, variables_of_libpq_do_not_lead_astray) {
    struct cluster *cluster = NULL;
    place_fill();
    setenv("PGHOSTADDR", "192.0.2.1", 1);
    setenv("PGPORT", "1", 1);
    setenv("PGDATABASE", "none", 1);
    setenv("PGSSLMODE", "require", 1);
    setenv("PGOPTIONS", "", 1);
    setenv("PGCHANNELBINDING", "require", 1);
    ASSERT_OK(cluster_use(home, &cluster, err));
    cluster_release(cluster);
    cr_expect_eq(server_process(), 0);
}
