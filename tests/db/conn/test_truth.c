/* Whatever breaks and whenever: OK means committed once, UNAVAILABLE means not committed, and only
 * UNCERTAIN may be both.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "link.h"
#include "support/pg.h"
#include "support/proxy.h"

TestSuite(db_truth, .timeout = 300);

enum { ROUNDS = 60, LARGE = 600 * 1024 };

static int64_t hasty_now_ms(void *context) {
    int64_t *now = context;
    return *now += 20000;
}

/* One way of breaking a connection. */
static void harm(int kind, struct link *link, struct proxy *proxy, const char *database) {
    switch (kind) {
    case 0:
        proxy_cut(proxy);
        break;
    case 1:
        conn_reset(link->conn, "harm");
        break;
    case 2:
        pg_exec(database, "select pg_terminate_backend(pid) from pg_stat_activity where "
                          "application_name = 'pgstage test' and datname = current_database()");
        break;
    default: /* none */
        break;
    }
}

static void send_insert(struct link *link, int id, bool transaction, const char *padding) {
    char *number = mem_format("%d", id);
    const struct db_param params[] = {DB_TEXT(number), DB_TEXT(padding)};
    const struct db_statement statements[] = {
        {.name = "insert",
         .text = "insert into t values ($1::int, length($2::text))",
         .param_count = 2,
         .params = params},
        {.name = "mark",
         .text = "insert into mark values ($1::int)",
         .param_count = 1,
         .params = params},
    };
    link_send(link, &(struct db_request){.transaction = transaction,
                                         .statement_count = 2,
                                         .statements = statements});
    free(number);
}

static void check(const char *database, int id, enum status code) {
    char *sql = mem_format("select (select count(*) from t where id = %d) * 10 + (select count(*) "
                           "from mark where id = %d)",
                           id, id);
    int64_t found = pg_int(database, sql);
    cr_assert(found == 0 || found == 11, "half a request was committed: %d", (int)found);
    cr_assert(code != STATUS_OK || found == 11, "request %d: OK, and not committed", id);
    cr_assert(code != STATUS_UNAVAILABLE || found == 0, "request %d: UNAVAILABLE, and committed",
              id);
    cr_assert(code == STATUS_OK || code == STATUS_UNAVAILABLE || code == STATUS_UNCERTAIN, "%s",
              status_name(code));
    free(sql);
}

Test(db_truth, answers_tell_what_was_committed) {
    char *database = pg_new_database();
    pg_exec(database, "create table t (id int, n int); create table mark (id int)");
    struct proxy *proxy = proxy_start(pg_socket_path());
    proxy_set_rate(proxy, 20 * 1024 * 1024);
    char *url = proxy_url(proxy, "127.0.0.1", pg_database_of(database));
    char *padding = mem_alloc(LARGE + 1);
    memset(padding, 'x', LARGE);
    int64_t now = 0;
    const struct clock_ops hasty = {hasty_now_ms, &now};
    struct random_seeded seed;
    const struct random_ops random = random_from_seed(&seed, 20240607);

    struct link link = {0};
    link_open(&link, NULL, &(struct conn_options){.url = url, .clock = &hasty});
    int seen[STATUS_INTERNAL + 1] = {0};
    for (int id = 1; id <= ROUNDS; id++) {
        link_wait_ready(&link);
        const char *text = id % 2 == 0 ? padding : "small";
        send_insert(&link, id, random_below(&random, 3) != 0, text);
        int before = link.answers;
        for (uint64_t turns = random_below(&random, 25); turns > 0 && link.answers == before;
             turns--) {
            uv_run(link.loop, UV_RUN_ONCE);
        }
        harm((int)random_below(&random, 4), &link, proxy, database);
        link_wait(&link, &link.answers, before + 1, 30000);
        /* An old session may still be at it, with what had reached it. */
        link_wait_ready(&link);
        pg_exec(database, "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
                          " where application_name = 'pgstage test' and state <> 'idle'"
                          " and datname = current_database()");
        check(database, id, link.code);
        seen[link.code]++;
    }
    cr_assert_gt(seen[STATUS_OK], 0);
    cr_assert_gt(seen[STATUS_UNAVAILABLE], 0);
    cr_assert_gt(seen[STATUS_UNCERTAIN], 0);
    link_close(&link);
    proxy_stop(proxy);
    free(padding);
    free(url);
    free(database);
}
