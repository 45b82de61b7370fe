/* Starting, sharing, holding and stopping. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/cluster.h"
#include "place.h"

TestSuite(cluster_life, .init = place_open, .fini = place_close, .timeout = 300);

static mode_t mode_of(const char *path, uid_t *owner) {
    struct stat info;
    cr_assert_eq(stat(path, &info), 0, "%s", path);
    *owner = info.st_uid;
    return info.st_mode & 07777;
}

Test(cluster_life, makes_starts_and_stops_a_private_server) {
    struct cluster *cluster = NULL;
    uid_t owner;
    ASSERT_OK(cluster_use(home, &cluster, err));
    const char *url = cluster_url(cluster);
    cr_expect_str_eq(sql(url,
                         "SELECT current_database() || ' ' || current_user || ' ' || rolsuper FROM "
                         "pg_roles WHERE rolname = current_user"),
                     "pgstage pgstage true");
    cr_expect_str_eq(sql(url, "SHOW server_encoding"), "UTF8");
    const char *locale = sql(url, "SHOW lc_collate");
    cr_expect(strcmp(locale, "C.UTF-8") == 0 || strcmp(locale, "C") == 0, "%s", locale);
    cr_expect_str_eq(sql(url, "SHOW listen_addresses"), "");
    cr_expect_str_eq(sql(url, "SHOW unix_socket_permissions"), "0700");
    cr_expect_str_eq(sql(url, "SHOW max_connections"), "100");
    cr_expect_str_eq(sql(url, "SHOW shared_buffers"), "128MB");
    cr_expect_str_eq(sql(url, "SHOW restart_after_crash"), "on");
    cr_expect_str_eq(sql(url, "SHOW client_connection_check_interval"), "10s");
    cr_expect_str_eq(sql(url, "SELECT count(*) FROM pg_hba_file_rules"), "1");

    static const char *const closed[] = {"pg", "run", "log"};
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++) {
        cr_expect_eq(mode_of(in_home(closed[i]), &owner), 0700, "%s", closed[i]);
        cr_expect_eq(owner, server_uid());
    }
    cr_expect_eq(mode_of(in_home("nodes"), &owner), 0700);
    cr_expect_eq(owner, geteuid());
    cr_expect(exists(in_home("log/postgresql.log")));
    cr_expect_not(exists(in_home("pg.new")));

    pid_t pid = server_process();
    cr_assert(pid > 0);
    cr_expect_not(server_is_held());
    cluster_release(cluster);
    cr_expect(is_gone(&pid));
    cr_expect_eq(server_process(), 0);
}

/* A lock that the server inherited would never be free again. */
static void expect_only_server_lock(pid_t pid) {
    char path[64], target[1024];
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    DIR *list = opendir(path);
    cr_assert_not_null(list);
    int locks = 0;
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        ssize_t length = readlinkat(dirfd(list), entry->d_name, target, sizeof target - 1);
        if (length > 0) {
            target[length] = '\0';
            cr_expect_null(strstr(target, "users.lock"));
            cr_expect_null(strstr(target, "cluster.lock"));
            cr_expect_null(strstr(target, "careless"));
            locks += strstr(target, "server.lock") != NULL;
        }
    }
    closedir(list);
    cr_expect_eq(locks, 1);
}

static void expect_clean_environment(pid_t pid) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    for (size_t i = 0; i < length; i++) {
        text[i] = text[i] == '\0' ? ' ' : text[i];
    }
    text[length] = '\0';
    cr_expect_null(strstr(text, "PGSTAGE_TEST_SECRET"));
    ASSERT_CONTAINS(text, "HOME=/ ");
}

Test(cluster_life, server_is_detached_and_inherits_nothing) {
    struct cluster *cluster = NULL;
    place_fill();
    setenv("PGSTAGE_TEST_SECRET", "x", 1);
    int careless = open(in_home("careless"), O_RDWR | O_CREAT, 0600); /* stays open at exec */
    cr_assert(careless > 2);
    ASSERT_OK(cluster_use(home, &cluster, err));
    pid_t pid = server_process();
    cr_assert(pid > 0);
    cr_expect_neq(getsid(pid), getsid(0));
    cr_expect_neq(getpgid(pid), getpgid(0));
    expect_only_server_lock(pid);
    expect_clean_environment(pid);
    cluster_release(cluster);
    close(careless);
}

Test(cluster_life, two_processes_share_it_and_the_last_one_stops_it) {
    place_fill();
    struct user first = user_start(), second = user_start();
    user_await(&first);
    user_await(&second);
    pid_t pid = server_process();
    cr_assert(pid > 0);
    user_end(&first);
    cr_expect_eq(server_process(), pid);
    user_end(&second);
    cr_expect_eq(server_process(), 0);
    cr_expect(is_gone(&pid));
}

Test(cluster_life, two_users_in_one_process_count_apart) {
    struct cluster *first = NULL, *second = NULL;
    place_fill();
    ASSERT_OK(cluster_use(home, &first, err));
    ASSERT_OK(cluster_use(home, &second, err));
    cluster_release(first);
    cr_expect(server_process() > 0);
    cr_expect_str_eq(sql(cluster_url(second), "SELECT 1"), "1");
    cluster_release(second);
    cr_expect_eq(server_process(), 0);
    cluster_release(NULL);
}

Test(cluster_life, server_outlives_a_killed_user_and_is_found_again) {
    place_fill();
    struct user user = user_start();
    user_await(&user);
    pid_t pid = server_process();
    user_kill(&user);
    cr_expect_eq(server_process(), pid);
    struct user next = user_start();
    user_await(&next);
    cr_expect_eq(server_process(), pid);
    user_end(&next);
    cr_expect_eq(server_process(), 0);
}

Test(cluster_life, ten_first_starts_at_once_make_one_database) {
    struct user users[10];
    for (int i = 0; i < 10; i++) {
        users[i] = user_start();
    }
    for (int i = 0; i < 10; i++) {
        user_await(&users[i]);
    }
    cr_expect(server_process() > 0);
    for (int i = 0; i < 10; i++) {
        user_end(&users[i]);
    }
    cr_expect_eq(server_process(), 0);
}

Test(cluster_life, held_server_stays_until_it_is_let_go) {
    struct cluster *cluster = NULL;
    place_fill();
    ASSERT_OK(cluster_hold(home, err));
    pid_t pid = server_process();
    cr_assert(pid > 0);
    cr_expect(server_is_held());
    ASSERT_OK(cluster_use(home, &cluster, err));
    cluster_release(cluster);
    cr_expect_eq(server_process(), pid);
    ASSERT_OK(cluster_hold(home, err)); /* again is fine */
    ASSERT_OK(cluster_stop(home, err));
    cr_expect_eq(server_process(), 0);
    cr_expect_not(server_is_held());
    ASSERT_OK(cluster_stop(home, err)); /* and so is this */
}

/* Whoever came first: the kernel lists locks in the order in which they were taken. */
static void stop_names_both(bool second_first) {
    char id[32];
    place_fill();
    ASSERT_OK(cluster_hold(home, err));
    struct user first = user_start_waiting(), second = user_start_waiting();
    user_go(second_first ? &second : &first);
    user_await(second_first ? &second : &first);
    user_go(second_first ? &first : &second);
    user_await(second_first ? &first : &second);

    struct error err = ERROR_NONE;
    cr_assert_eq(cluster_stop(home, &err), STATUS_CONFLICT);
    ASSERT_CONTAINS(err.text, "2 other processes use the database");
    snprintf(id, sizeof id, "%ld", (long)second.pid);
    ASSERT_CONTAINS(err.text, id);
    user_end(&second);
    error_clear(&err);
    cr_assert_eq(cluster_stop(home, &err), STATUS_CONFLICT);
    ASSERT_CONTAINS(err.text, "1 other process uses the database");
    cr_expect(server_process() > 0);

    /* The stop has let it go, so that its last user ends it. */
    user_end(&first);
    cr_expect_eq(server_process(), 0);
}

Test(cluster_life, stop_names_those_who_still_use_it) {
    stop_names_both(false);
}

Test(cluster_life, stop_names_those_who_still_use_it_in_any_order) {
    stop_names_both(true);
}

Test(cluster_life, state_of_an_unused_home_is_stopped) {
    cr_expect_eq(server_process(), 0);
    cr_expect_not(server_is_held());
    ASSERT_OK(cluster_stop(home, err));
    cr_expect_not(exists(in_home("pg")));
}

Test(cluster_life, dropped_database_is_made_again) {
    struct cluster *first = NULL, *second = NULL;
    char url[1024];
    place_fill();
    ASSERT_OK(cluster_use(home, &first, err));
    snprintf(url, sizeof url, "%s dbname=postgres", cluster_url(first));
    sql(url, "DROP DATABASE pgstage");
    ASSERT_OK(cluster_use(home, &second, err));
    cr_expect_str_eq(sql(cluster_url(second), "SELECT current_database()"), "pgstage");
    cluster_release(second);
    cluster_release(first);
}
