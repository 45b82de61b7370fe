/* What a crash, a kill or a reboot leaves behind. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "db/cluster.h"
#include "db/cluster_process.h"
#include "place.h"

TestSuite(cluster_crash, .init = place_open, .fini = place_close, .timeout = 300);

static void put_row(const struct cluster *cluster) {
    sql(cluster_url(cluster), "CREATE TABLE kept AS SELECT 42 AS n");
}

static void expect_row(const struct cluster *cluster) {
    cr_expect_str_eq(sql(cluster_url(cluster), "SELECT n FROM kept"), "42");
}

Test(cluster_crash, killed_server_is_started_again_with_its_data) {
    struct cluster *cluster = NULL, *next = NULL;
    place_fill();
    struct user user = user_start();
    user_await(&user);
    ASSERT_OK(cluster_use(home, &cluster, err));
    put_row(cluster);
    pid_t pid = server_process();
    kill_server();
    cr_assert_eq(server_process(), 0);
    cr_assert(exists(in_home("pg/postmaster.pid")));

    ASSERT_OK(cluster_use(home, &next, err));
    cr_expect_neq(server_process(), pid);
    expect_row(next);
    expect_row(cluster); /* the old string leads to the new server */
    cluster_release(next);
    cluster_release(cluster);
    cr_expect(server_process() > 0);
    user_end(&user);
    cr_expect_eq(server_process(), 0);
}

Test(cluster_crash, release_after_the_server_died_is_quiet) {
    struct cluster *cluster = NULL;
    place_fill();
    ASSERT_OK(cluster_use(home, &cluster, err));
    kill_server();
    cluster_release(cluster);
    cr_expect_eq(server_process(), 0);
    ASSERT_OK(cluster_use(home, &cluster, err));
    cluster_release(cluster);
}

static bool is_running_query(const void *url) {
    return strcmp(sql(url,
                      "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE "
                      "'DO %LOOP%' AND pid <> pg_backend_pid()"),
                  "1") == 0;
}

/* A backend in a tight loop does not notice that its postmaster has died, and still has the shared
 * memory. */
Test(cluster_crash, backends_that_outlive_the_postmaster_are_ended_first) {
    struct cluster *cluster = NULL, *next = NULL;
    place_fill();
    ASSERT_OK(cluster_use(home, &cluster, err));
    put_row(cluster);
    PGconn *busy = PQconnectdb(cluster_url(cluster));
    cr_assert_eq(PQsendQuery(busy, "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$"), 1);
    wait_until(is_running_query, cluster_url(cluster), "the backend is busy");
    pid_t backend = PQbackendPID(busy), postmaster = server_process();
    cr_assert_eq(kill(postmaster, SIGKILL), 0);
    wait_until(is_gone, &postmaster, "the postmaster is dead");
    cr_assert(process_is_alive(backend));

    ASSERT_OK(cluster_use(home, &next, err));
    cr_expect(is_gone(&backend));
    expect_row(next);
    PQfinish(busy);
    cluster_release(next);
    cluster_release(cluster);
    cr_expect_eq(server_process(), 0);
}

static pid_t child_of_servers_user(bool zombie) {
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && setresuid(server_uid(), server_uid(), server_uid()) != 0) {
            _exit(1);
        }
        while (!zombie) {
            pause();
        }
        _exit(0);
    }
    child_adopt(pid);
    if (zombie) {
        siginfo_t info;
        cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    }
    return pid;
}

/* PostgreSQL itself refuses to start while any process with the recorded id lives. */
static void start_with_recorded_id(bool zombie) {
    struct cluster *cluster = NULL;
    char text[1024];
    place_fill();
    ASSERT_OK(cluster_use(home, &cluster, err));
    put_row(cluster);
    kill_server();
    cluster_release(cluster);

    pid_t other = child_of_servers_user(zombie);
    snprintf(text, sizeof text, "%ld\n%s\n1\n5432\n%s\n\n", (long)other, in_home("pg"),
             in_home("run"));
    file_write(in_home("pg/postmaster.pid"), text, server_uid(), 0600);
    file_write(in_home("run/.s.PGSQL.5432.lock"), text, server_uid(), 0600);
    ASSERT_OK(cluster_stop(home, err));
    ASSERT_OK(cluster_use(home, &cluster, err));
    expect_row(cluster);
    cluster_release(cluster);
    cr_expect(zombie || process_is_alive(other), "a stranger was killed");
    child_end(other);
}

Test(cluster_crash, recorded_id_may_be_a_strangers_by_now) {
    start_with_recorded_id(false);
}

Test(cluster_crash, recorded_id_may_be_a_zombies) {
    start_with_recorded_id(true);
}

Test(cluster_crash, interrupted_initdb_is_done_again) {
    struct cluster *cluster = NULL;
    struct user user = user_start();
    wait_until(exists, in_home("pg.new/base/1"), "initdb is at work");
    user_kill(&user);
    cr_assert_not(exists(in_home("pg")));
    cr_assert(exists(in_home("pg.new")));
    ASSERT_OK(cluster_use(home, &cluster, err));
    cr_expect_not(exists(in_home("pg.new")));
    cr_expect_str_eq(sql(cluster_url(cluster), "SELECT 1"), "1");
    cluster_release(cluster);
}

Test(cluster_crash, starter_killed_before_the_server_was_ready) {
    struct cluster *cluster = NULL;
    place_fill();
    struct user user = user_start();
    wait_until(exists, in_home("log/start.log"), "the server is being started");
    user_kill(&user);
    ASSERT_OK(cluster_use(home, &cluster, err));
    cr_expect_str_eq(sql(cluster_url(cluster), "SELECT 1"), "1");
    cluster_release(cluster);
    cr_expect_eq(server_process(), 0);
}

Test(cluster_crash, killed_backend_makes_the_server_restart_itself) {
    struct cluster *cluster = NULL, *next = NULL;
    place_fill();
    ASSERT_OK(cluster_use(home, &cluster, err));
    put_row(cluster);
    pid_t pid = server_process();
    PGconn *victim = PQconnectdb(cluster_url(cluster));
    cr_assert_eq(kill(PQbackendPID(victim), SIGKILL), 0);
    ASSERT_OK(cluster_use(home, &next, err)); /* comes back when it answers again */
    cr_expect_eq(server_process(), pid);
    PQfinish(victim);
    cluster_release(next);
    cluster_release(cluster);
}

static void expect_no_error(PGconn *connection) {
    for (PGresult *result; (result = PQgetResult(connection)) != NULL; PQclear(result)) {
        cr_expect_neq(PQresultStatus(result), PGRES_FATAL_ERROR, "%s", PQresultErrorMessage(result));
    }
}

/* Whoever starts asks another database what is wrong, each time that it may not into its own. */
static const char open_after_a_second_try[] =
    "do $$ declare seen int[] := '{}'; begin while cardinality(seen) < 2 loop perform pg_stat_clear_snapshot();"
    " seen := array(select unnest(seen) union select pid from pg_stat_activity where application_name = 'pgstage start'"
    " and datname = 'postgres'); end loop; update pg_database set datallowconn = true where datname = 'pgstage'; end $$";

/* As when a backend has crashed and the server has not noticed yet: it answers, and then closes what was opened. */
Test(cluster_crash, a_server_that_answers_and_closes_again_is_waited_for) {
    struct cluster *cluster = NULL, *next = NULL;
    place_fill();
    ASSERT_OK(cluster_use(home, &cluster, err));
    char *url = mem_format("%s dbname=postgres", cluster_url(cluster));
    PGconn *other = PQconnectdb(url);
    PQclear(PQexec(other, "alter database pgstage allow_connections false"));
    cr_assert_eq(PQsendQuery(other, open_after_a_second_try), 1);
    ASSERT_OK(cluster_use(home, &next, err));
    expect_no_error(other);
    PQfinish(other);
    free(url);
    cluster_release(next);
    cluster_release(cluster);
}

Test(cluster_crash, long_lived_user_tends_it) {
    struct cluster *cluster = NULL;
    place_fill();
    ASSERT_OK(cluster_use(home, &cluster, err));
    put_row(cluster);
    ASSERT_OK(cluster_tend(cluster, err));
    kill_server();
    ASSERT_OK(cluster_tend(cluster, err));
    expect_row(cluster);

    cr_assert_eq(truncate(in_home("log/postgresql.log"), 40 * 1024 * 1024), 0);
    ASSERT_OK(cluster_tend(cluster, err));
    cr_expect(exists(in_home("log/postgresql.log.1")));
    wait_until(exists, in_home("log/postgresql.log"), "the server has a new log");
    struct stat info;
    cr_assert_eq(stat(in_home("log/postgresql.log"), &info), 0);
    cr_expect(info.st_size < 1024 * 1024);
    cluster_release(cluster);
}
