/* What stands between us and the server: found out by asking, whatever the pooler's size and its way of choosing. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "db/pooler.h"
#include "support/pg.h"
#include "support/pooler.h"

TestSuite(pooler, .timeout = 120);

static struct db_sync *open_url(const char *url) {
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(url, "test", &db, &err), STATUS_OK, "%s", err.text);
    return db;
}

static enum pooler find(const char *url) {
    struct db_sync *db = open_url(url);
    enum pooler pooler = POOLER_NONE;
    struct error err = ERROR_NONE;
    cr_assert_eq(pooler_find(url, db, &pooler, &err), STATUS_OK, "%s", err.text);
    sync_close(db);
    return pooler;
}

/* A pooler opens a session when all others are taken: it has as many afterwards as transactions were open at a time. */
static void warm_up(const char *url, int size) {
    struct db_sync *clients[12] = {NULL};
    struct error err = ERROR_NONE;
    for (int i = 0; i < size; i++) {
        clients[i] = open_url(url);
        cr_assert_eq(sync_script(clients[i], "begin", &err), STATUS_OK, "%s", err.text);
    }
    for (int i = 0; i < size; i++) {
        cr_assert_eq(sync_script(clients[i], "commit", &err), STATUS_OK, "%s", err.text);
        sync_close(clients[i]);
    }
}

/* The server itself is known without a second connection: there may be none to be had. */
Test(pooler, there_is_none) {
    char *url = pg_new_database();
    struct db_sync *db = open_url(url);
    enum pooler pooler = POOLER_OF_TRANSACTIONS;
    struct error err = ERROR_NONE;
    cr_assert_eq(pooler_find("postgresql://127.0.0.1:1/x", db, &pooler, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(pooler, POOLER_NONE);
    sync_close(db);
    free(url);
}

Test(pooler, one_is_known_by_its_mode) {
    static const struct {
        const char *mode, *more;
        int size;
        enum pooler found;
    } cases[] = {
        {"transaction", "", 1, POOLER_OF_TRANSACTIONS},
        {"transaction", "", 2, POOLER_OF_TRANSACTIONS},
        {"transaction", "", 5, POOLER_OF_TRANSACTIONS},
        {"transaction", "server_round_robin = 1\n", 2, POOLER_OF_TRANSACTIONS},
        {"transaction", "server_round_robin = 1\n", 3, POOLER_OF_TRANSACTIONS},
        {"transaction", "server_round_robin = 1\n", 4, POOLER_OF_TRANSACTIONS},
        {"transaction", "server_round_robin = 1\n", 12, POOLER_OF_TRANSACTIONS},
        {"session", "", 5, POOLER_OF_SESSIONS},
        {"session", "server_round_robin = 1\n", 5, POOLER_OF_SESSIONS},
    };
    char *database = pg_new_database();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pooler_process *process = pooler_start(cases[i].mode, cases[i].size, cases[i].more);
        char *url = pooler_url(process, pg_database_of(database));
        warm_up(url, cases[i].size);
        cr_expect_eq(find(url), cases[i].found, "%s, %d sessions %s", cases[i].mode, cases[i].size, cases[i].more);
        pooler_stop(process);
        free(url);
    }
    free(database);
}

/* ---- where to listen ------------------------------------------------------------------------------------------------ */

static void expect_direct(struct db_sync *db, const char *url, const char *refusal) {
    struct error err = ERROR_NONE;
    enum status status = pooler_check_direct(url, db, &err);
    cr_expect_eq(status, refusal == NULL ? STATUS_OK : STATUS_INVALID, "%s", err.text);
    cr_expect(refusal == NULL || strstr(err.text, refusal) != NULL, "%s", err.text);
}

Test(pooler, it_is_the_same_database_without_a_pooler_of_transactions) {
    char *database = pg_new_database(), *other = pg_new_database();
    struct db_sync *db = open_url(database);
    expect_direct(db, database, NULL);
    expect_direct(db, other, "is another one");
    static const struct {
        const char *mode, *refusal;
    } modes[] = {{"session", NULL}, {"transaction", "in transaction mode as well"}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        struct pooler_process *process = pooler_start(modes[i].mode, 5, "");
        char *url = pooler_url(process, pg_database_of(database));
        expect_direct(db, url, modes[i].refusal);
        pooler_stop(process);
        free(url);
    }
    sync_close(db);
    free(database);
    free(other);
}

/* A database of the same name on another server. */
Test(pooler, another_server_is_another_database) {
    struct pg_cluster *cluster = pg_cluster_start();
    struct db_sync *db = open_url(pg_url());
    expect_direct(db, pg_cluster_url(cluster), "is another one (postgres of ");
    sync_close(db);
    pg_cluster_remove(cluster);
}

/* A role that may not ask for the server's identity: the names have to do. */
Test(pooler, a_role_with_few_rights_is_no_obstacle) {
    char *database = pg_new_database(), *other = pg_new_database();
    const char *user = strstr(database, "user=postgres");
    char *url = mem_format("%.*suser=plain", (int)(user - database), database);
    pg_exec(pg_url(), "create role plain login");
    pg_exec(database, "revoke execute on function pg_control_system() from public");
    struct db_sync *db = open_url(url), *owner = open_url(database);
    expect_direct(db, url, NULL);
    expect_direct(db, database, NULL);
    expect_direct(owner, url, NULL);
    expect_direct(db, other, "is another one");
    sync_close(db);
    sync_close(owner);
    free(database);
    free(other);
    free(url);
}
