/* What cannot work says so in words, before anything is made. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "db/cluster.h"
#include "place.h"

TestSuite(cluster_refusal, .init = place_open, .fini = place_close, .timeout = 300);

static void expect_refused(enum status code, const char *first, const char *second) {
    struct cluster *cluster = NULL;
    struct error err = ERROR_NONE;
    enum status status = cluster_use(home, &cluster, &err);
    cr_assert_eq(status, code, "%s: %s", status_name(status), err.text);
    ASSERT_CONTAINS(err.text, first);
    ASSERT_CONTAINS(err.text, second);
    cr_expect_null(cluster);
}

Test(cluster_refusal, folder_that_the_servers_user_cannot_enter) {
    char expected[256];
    place_needs_root();
    cr_assert_eq(chmod(folder, 0700), 0);
    snprintf(expected, sizeof expected, "cannot enter the folder %s: allow it with `chmod o+x %s`",
             folder, folder);
    expect_refused(STATUS_INVALID, expected, "--home");
    cr_expect_not(exists(in_home("pg.new")));
    cr_expect_not(exists(in_home("pg")));
}

Test(cluster_refusal, closed_home_of_root_is_opened_for_passing) {
    struct cluster *cluster = NULL;
    place_needs_root();
    place_fill();
    cr_assert_eq(chmod(home, 0700), 0);
    ASSERT_OK(cluster_use(home, &cluster, err));
    cluster_release(cluster);
}

Test(cluster_refusal, missing_programs_say_what_to_install) {
    setenv("PGSTAGE_PG_BINDIR", folder, 1);
    expect_refused(STATUS_NOT_FOUND, "apt-get install postgresql-15", folder);
    cr_expect_not(exists(in_home("pg.new")));
}

/* A folder with programs of another version. */
static void fake_programs(const char *version) {
    char path[128], text[128];
    snprintf(path, sizeof path, "%s/bin", folder);
    cr_assert_eq(mkdir(path, 0755), 0);
    cr_assert_eq(chmod(path, 0755), 0);
    setenv("PGSTAGE_PG_BINDIR", path, 1);
    snprintf(text, sizeof text, "#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", version);
    snprintf(path, sizeof path, "%s/bin/postgres", folder);
    file_write(path, text, geteuid(), 0755);
    snprintf(path, sizeof path, "%s/bin/initdb", folder);
    file_write(path, text, geteuid(), 0755);
}

Test(cluster_refusal, old_programs) {
    fake_programs("12.22 (Debian 12.22-1)");
    expect_refused(STATUS_NOT_FOUND, "are PostgreSQL 12, and 15 is the oldest", "apt-get install");
}

Test(cluster_refusal, programs_of_another_version_than_the_data) {
    place_fill();
    fake_programs("17beta1");
    expect_refused(STATUS_CONFLICT, "was made by PostgreSQL 15", "version 17");
}

Test(cluster_refusal, programs_that_the_servers_user_cannot_run) {
    char path[128];
    place_needs_root();
    fake_programs("15.1");
    snprintf(path, sizeof path, "%s/bin", folder);
    cr_assert_eq(chmod(path, 0700), 0);
    expect_refused(STATUS_NOT_FOUND, "cannot run", path);
}

Test(cluster_refusal, data_of_another_version) {
    place_fill();
    file_write(in_home("pg/PG_VERSION"), "13\n", server_uid(), 0600);
    expect_refused(STATUS_CONFLICT, "was made by PostgreSQL 13", "apt-get install postgresql-13");
}

Test(cluster_refusal, folder_that_holds_no_data) {
    cr_assert_eq(mkdir(in_home("pg"), 0700), 0);
    cr_assert_eq(chown(in_home("pg"), server_uid(), (gid_t)-1), 0);
    expect_refused(STATUS_INVALID, "holds no PostgreSQL data", in_home("pg"));
}

Test(cluster_refusal, server_that_does_not_start_tells_why) {
    place_fill();
    file_write(in_home("pg/postgresql.auto.conf"), "max_connections = 'many'\n", server_uid(),
               0600);
    expect_refused(STATUS_UNAVAILABLE, "did not start", "postgresql.auto.conf");
    file_write(in_home("pg/postgresql.auto.conf"), "", server_uid(), 0600);
    cr_assert_eq(unlink(in_home("pg/global/pg_control")), 0);
    expect_refused(STATUS_UNAVAILABLE, "did not start", "could not find the database system");
}

Test(cluster_refusal, home_that_others_may_write_to) {
    cr_assert_eq(chmod(home, 0777), 0);
    expect_refused(STATUS_INVALID, "other users may write", home);
}

Test(cluster_refusal, home_of_another_user) {
    place_needs_root();
    cr_assert_eq(chown(home, server_uid(), (gid_t)-1), 0);
    expect_refused(STATUS_INVALID, "belongs to the user", home);
}

Test(cluster_refusal, names_that_cannot_be_used) {
    struct cluster *cluster = NULL;
    struct error err = ERROR_NONE;
    cr_expect_eq(cluster_use("relative", &cluster, &err), STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "not an absolute path");
    error_clear(&err);
    cr_expect_eq(cluster_use("/nowhere/at/all", &cluster, &err), STATUS_INVALID);
    ASSERT_CONTAINS(err.text, "/nowhere/at/all");
    place_name("two\nlines");
    expect_refused(STATUS_INVALID, "line break", "home folder");
    cr_expect_eq(cluster_use(home, &cluster, NULL), STATUS_INVALID);
}

static int use_without_rights(char *text, size_t size) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    struct cluster *cluster = NULL;
    struct error err = ERROR_NONE;
    if (syscall(SYS_capget, &header, data) != 0) {
        return 1;
    }
    unsigned lost = 1U << CAP_SETUID | 1U << CAP_SETGID;
    data[0].effective &= ~lost;
    data[0].permitted &= ~lost;
    if (syscall(SYS_capset, &header, data) != 0) {
        return 1;
    }
    enum status status = cluster_use(home, &cluster, &err);
    snprintf(text, size, "%s", err.text);
    return status == STATUS_INVALID ? 0 : 2;
}

Test(cluster_refusal, root_that_may_not_change_user) {
    char text[1024];
    place_needs_root();
    cr_assert_eq(in_child(use_without_rights, text, sizeof text), 0, "%s", text);
    ASSERT_CONTAINS(text, "may not become the user");
    cr_expect_not(exists(in_home("pg.new")));
}

static const char *tried_url;

static int connect_as_nobody(char *text, size_t size) {
    become("nobody");
    PGconn *connection = PQconnectdb(tried_url);
    int result = PQstatus(connection) == CONNECTION_OK ? 1 : 0;
    snprintf(text, size, "%s", PQerrorMessage(connection));
    PQfinish(connection);
    return result;
}

static int connect_as_server(char *text, size_t size) {
    if (setresuid(server_uid(), server_uid(), server_uid()) != 0) {
        return 2;
    }
    PGconn *connection = PQconnectdb(tried_url);
    int result = PQstatus(connection) == CONNECTION_OK ? 0 : 1;
    snprintf(text, size, "%s", PQerrorMessage(connection));
    PQfinish(connection);
    return result;
}

Test(cluster_refusal, nobody_else_can_connect) {
    struct cluster *cluster = NULL;
    char text[1024];
    place_needs_root();
    place_fill();
    ASSERT_OK(cluster_use(home, &cluster, err));
    tried_url = cluster_url(cluster);
    cr_expect_eq(in_child(connect_as_nobody, text, sizeof text), 0);
    ASSERT_CONTAINS(text, "Permission denied");
    /* The second fence: with the folder and the socket open, the server asks the kernel who it is.
     */
    cr_assert_eq(chmod(in_home("run"), 0755), 0);
    cr_assert_eq(chmod(in_home("run/.s.PGSQL.5432"), 0777), 0);
    cr_expect_eq(in_child(connect_as_nobody, text, sizeof text), 0);
    ASSERT_CONTAINS(text, "Peer authentication failed");
    cr_assert_eq(chmod(in_home("run"), 0700), 0);
    cr_expect_eq(in_child(connect_as_server, text, sizeof text), 0, "%s", text);
    cluster_release(cluster);
}
