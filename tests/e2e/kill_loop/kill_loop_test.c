/* kill_loop_test.c - C01: kills -9 a random one of {node, worker, PostgreSQL backend, the whole embedded server}, again and
 * again, while 300 documents pass five stages; in every round all of them must end done, each effect in the database
 * exactly once. Now and then a node is told to reload instead, so that it is killed in the middle of that as well.
 *
 * In some rounds the lease is shorter than PostgreSQL's recovery, so that nodes lose it; in others it is longer, so that what
 * ran goes on and is sent again.
 *
 * PGSTAGE_KILL_ROUNDS (20), PGSTAGE_KILL_SEED and PGSTAGE_KILL_LEASE_MS come from the environment; the seed is printed.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "db/cluster.h"
#include "db/sync.h"

enum { DOCUMENTS = 300, NODES = 2, ROUND_DEADLINE_MS = 300 * 1000, STAGES_WITH_EFFECT = 3 };

struct arena_of_war {
    char home[64], file[96];
    struct cluster *cluster;
    struct db_sync *db; /* NULL: to be opened */
    pid_t nodes[NODES];
    int lease_ms;
    struct random_seeded seeded;
    struct random_ops random;
    int kills[5];
};

static const char *const kinds[] = {"node", "worker", "backend", "server", "reload"};

static int64_t now_ms(void) {
    return clock_now_ms(&clock_boottime);
}

static void pause_ms(int ms) {
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

/* One value as text; NULL while the server is away. */
static char *ask(struct arena_of_war *w, const char *sql) {
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    char *value = NULL;
    if ((w->db != NULL || sync_open(cluster_url(w->cluster), "test", &w->db, &err) == STATUS_OK) &&
        sync_run(w->db, NULL, sql, 0, NULL, &result, &err) == STATUS_OK) {
        value = mem_copy_string(db_rows(result) > 0 ? db_value(result, 0, 0) : "");
    } else {
        sync_close(w->db);
        w->db = NULL;
    }
    sync_result_free(result);
    return value;
}

/* The same, waiting for the server to come back. */
static char *ask_surely(struct arena_of_war *w, const char *sql) {
    int64_t deadline = now_ms() + 60 * 1000;
    for (;;) {
        char *value = ask(w, sql);
        if (value != NULL) {
            return value;
        }
        cr_assert(now_ms() < deadline, "the server did not come back for: %s", sql);
        pause_ms(20);
    }
}

static int64_t ask_number(struct arena_of_war *w, const char *sql) {
    char *value = ask_surely(w, sql);
    int64_t number = strtoll(value, NULL, 10);
    free(value);
    return number;
}

static void write_pipeline(struct arena_of_war *w) {
    snprintf(w->file, sizeof w->file, "%s/war.yaml", w->home);
    FILE *file = fopen(w->file, "w");
    cr_assert_not_null(file);
    fprintf(file,
            "pipeline: war\n"
            "defaults: {timeout: 20s, retry: {first: 50ms, max: 200ms}}\n"
            "stages:\n"
            "  - {name: read, handler: '%s:step'}\n"
            "  - {name: first, handler: '%s:ledger', workers: 2}\n"
            "  - {name: middle, handler: '%s:step'}\n"
            "  - {name: second, handler: '%s:ledger'}\n"
            "  - name: last\n"
            "    sql: insert into ledger (key, stage, version) values (:key, 'last', :version)\n",
            LEDGER_HANDLERS, LEDGER_HANDLERS, LEDGER_HANDLERS, LEDGER_HANDLERS);
    fclose(file);
}

static pid_t start_node(struct arena_of_war *w, int index) {
    pid_t pid = fork();
    if (pid == 0) {
        char log[128];
        snprintf(log, sizeof log, "%s/node%d.log", w->home, index);
        if (freopen(log, "a", stderr) == NULL || freopen("/dev/null", "w", stdout) == NULL) {
            _exit(126);
        }
        char lease[32];
        snprintf(lease, sizeof lease, "%dms", w->lease_ms);
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* dozens of starts; leaks are other tests' matter */
        setpgid(0, 0);
        execl(PGSTAGE_PROGRAM, "pgstage", "run", w->file, "--home", w->home, "--lease", lease, "--log", "info",
              (char *)NULL);
        _exit(127);
    }
    cr_assert(pid > 0);
    return pid;
}

/* The parent of a process, 0 when it is gone. */
static pid_t parent_of(pid_t pid) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    int parent = 0;
    if (fgets(line, sizeof line, file) != NULL) {
        char *end = strrchr(line, ')');
        if (end == NULL || sscanf(end + 1, " %*c %d", &parent) != 1) {
            parent = 0;
        }
    }
    fclose(file);
    return parent;
}

static int children_of(pid_t parent, pid_t *pids, int max) {
    int count = 0;
    DIR *proc = opendir("/proc");
    cr_assert_not_null(proc);
    for (struct dirent *entry; count < max && (entry = readdir(proc)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 1 && parent_of(pid) == parent) {
            pids[count++] = pid;
        }
    }
    closedir(proc);
    return count;
}

static pid_t server_pid(const struct arena_of_war *w) {
    int pid = 0;
    bool held;
    struct error err = ERROR_NONE;
    if (cluster_state(w->home, &pid, &held, &err) != STATUS_OK) {
        return 0;
    }
    return (pid_t)pid;
}

static bool kill_one_of(struct arena_of_war *w, const pid_t *pids, int count) {
    return count > 0 && kill(pids[random_below(&w->random, (uint64_t)count)], SIGKILL) == 0;
}

static bool kill_node(struct arena_of_war *w) {
    int index = (int)random_below(&w->random, NODES);
    kill(w->nodes[index], SIGKILL);
    waitpid(w->nodes[index], NULL, 0);
    w->nodes[index] = start_node(w, index);
    return true;
}

static bool kill_worker(struct arena_of_war *w) {
    pid_t pids[64];
    int index = (int)random_below(&w->random, NODES);
    return kill_one_of(w, pids, children_of(w->nodes[index], pids, 64));
}

static bool kill_backend(struct arena_of_war *w) {
    /* A client's backend: one killed makes PostgreSQL restart all of them, as after any crash. */
    char *pid = ask(w, "select pid from pg_stat_activity where application_name like 'pgstage %' and pid <> "
                       "pg_backend_pid() order by random() limit 1");
    bool killed = pid != NULL && *pid != '\0' && kill((pid_t)strtol(pid, NULL, 10), SIGKILL) == 0;
    free(pid);
    return killed;
}

static bool kill_server(struct arena_of_war *w) {
    pid_t pids[256], server = server_pid(w);
    if (server <= 1) {
        return false;
    }
    kill(server, SIGSTOP); /* so that it makes no children while they are counted */
    int count = children_of(server, pids, 256);
    kill(server, SIGKILL);
    for (int i = 0; i < count; i++) {
        kill(pids[i], SIGKILL);
    }
    return true;
}

/* Nothing is killed: a successor is started, and what else happens meets two nodes in one process. */
static bool reload_node(struct arena_of_war *w) {
    pid_t node = w->nodes[random_below(&w->random, NODES)];
    char path[64], line[256];
    unsigned long long caught = 0; /* one that has only just been started would end of it */
    snprintf(path, sizeof path, "/proc/%d/status", (int)node);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL && sscanf(line, "SigCgt: %llx", &caught) != 1) {
    }
    if (file != NULL) {
        fclose(file);
    }
    return (caught >> (SIGHUP - 1) & 1) != 0 && kill(node, SIGHUP) == 0;
}

static void kill_something(struct arena_of_war *w) {
    static bool (*const ways[])(struct arena_of_war *) = {kill_node, kill_worker, kill_backend, kill_server,
                                                            reload_node};
    int kind = (int)random_below(&w->random, 5);
    if (ways[kind](w)) {
        w->kills[kind]++;
    }
}

static void submit(struct arena_of_war *w) {
    char sql[512];
    snprintf(sql, sizeof sql,
             "select count(*) from pgstage.submit_set('war', (select array_agg('doc/' || i) from "
             "generate_series(1, %d) i), (select array_agg(jsonb_build_object('n', i)) from generate_series(1, %d) "
             "i), null, null, null, false)",
             DOCUMENTS, DOCUMENTS);
    cr_assert_eq(ask_number(w, sql), DOCUMENTS);
}

/* A stop while both nodes are connected (their leases were renewed a moment ago) ends with 0. */
static void stop_nodes(struct arena_of_war *w) {
    int64_t deadline = now_ms() + 60 * 1000;
    char sql[256];
    snprintf(sql, sizeof sql,
             "select count(distinct pid) from pgstage.node where not ended and pid in (%d, %d) and "
             "lease_until > pgstage.now() + %d * interval '1 ms'",
             (int)w->nodes[0], (int)w->nodes[1], w->lease_ms * 2 / 3);
    while (ask_number(w, sql) < NODES) {
        cr_assert(now_ms() < deadline, "a node did not come back");
        pause_ms(20);
    }
    for (int i = 0; i < NODES; i++) {
        kill(w->nodes[i], SIGTERM);
    }
    for (int i = 0; i < NODES; i++) {
        int status = 0;
        cr_assert_eq(waitpid(w->nodes[i], &status, 0), w->nodes[i]);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "node %d ended with status %x", i, (unsigned)status);
    }
}

static void expect_number(struct arena_of_war *w, const char *sql, int64_t wanted, const char *what) {
    int64_t found = ask_number(w, sql);
    cr_expect_eq(found, wanted, "%s: %lld, not %lld", what, (long long)found, (long long)wanted);
}

static void check(struct arena_of_war *w) {
    expect_number(w, "select count(*) from pgstage.task where status = 'done' and done_version = version", DOCUMENTS,
                  "documents done");
    expect_number(w, "select count(*) from ledger", DOCUMENTS * STAGES_WITH_EFFECT, "effects");
    expect_number(w, "select count(*) from (select distinct key, stage from ledger) x", DOCUMENTS * STAGES_WITH_EFFECT,
                  "different effects");
    expect_number(w, "select count(*) from pgstage.failure where kind = 'quarantine'", 0, "quarantined");
    expect_number(w, "select count(*) from pgstage.task where attempt <> 0", 0, "tasks with attempts used");
    expect_number(w,
                  "select count(*) from (select stage, status, sum(n) as n from (select stage, status, n from "
                  "pgstage.task_count union all select stage, status, n from pgstage.task_count_delta) a group by 1, 2 "
                  "having sum(n) <> 0) c full join (select stage, status, count(*) as n from pgstage.task group by 1, 2) "
                  "t using (stage, status) where c.n is distinct from t.n",
                  0, "counts that are not true");
    expect_number(w, "select count(*) from pgstage.output o join pgstage.task t on t.id = o.task "
                     "where o.version <> t.version", 0, "outputs of older versions");
}

static int64_t from_environment(const char *name, int64_t fallback) {
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? fallback : strtoll(text, NULL, 10);
}

static void round_of(struct arena_of_war *w, int number) {
    int64_t begin = now_ms(), deadline = begin + ROUND_DEADLINE_MS;
    memset(w->kills, 0, sizeof w->kills);
    int lease_ms = random_below(&w->random, 3) == 0 ? 1500 : 8000;
    w->lease_ms = (int)from_environment("PGSTAGE_KILL_LEASE_MS", lease_ms);
    free(ask_surely(w, "truncate ledger, pgstage.periodic, pgstage.task, pgstage.output, pgstage.progress, pgstage.failure, pgstage.claim_batch, "
                       "pgstage.task_count, pgstage.task_count_delta, pgstage.node, pgstage.leader"));
    submit(w);
    for (int i = 0; i < NODES; i++) {
        w->nodes[i] = start_node(w, i);
    }
    /* Something is killed each time that a few more effects are in the database. */
    int64_t effects = 0, next = 10, done = 0;
    while (done < DOCUMENTS) {
        cr_assert(now_ms() < deadline, "round %d: %lld of %d done in time", number, (long long)done, DOCUMENTS);
        char *text = ask(w, "select (select count(*) from ledger) || ' ' || (select count(*) from pgstage.task where "
                            "status = 'done')");
        if (text != NULL) {
            char *end = NULL;
            effects = strtoll(text, &end, 10);
            done = strtoll(end, NULL, 10);
            free(text);
        }
        if (effects >= next && done < DOCUMENTS) {
            kill_something(w);
            next = effects + 20 + (int64_t)random_below(&w->random, 150);
        }
        pause_ms(10);
    }
    stop_nodes(w);
    check(w);
    fprintf(stderr, "round %2d: %d documents done in %.1f s; lease %d ms; killed", number, DOCUMENTS,
            (double)(now_ms() - begin) / 1000, w->lease_ms);
    for (int i = 0; i < 5; i++) {
        fprintf(stderr, " %s %d", kinds[i], w->kills[i]);
    }
    fputc('\n', stderr);
}

Test(kill_loop, every_round_ends_with_all_done_exactly_once, .timeout = 3600) {
    struct arena_of_war w = {0};
    snprintf(w.home, sizeof w.home, "/tmp/pgstage-war-XXXXXX");
    cr_assert_not_null(mkdtemp(w.home));
    cr_assert_eq(chmod(w.home, 0711), 0);
    int64_t seed = from_environment("PGSTAGE_KILL_SEED", (int64_t)(random_next(&random_system) % 1000000));
    int64_t rounds = from_environment("PGSTAGE_KILL_ROUNDS", 20);
    fprintf(stderr, "seed %lld\n", (long long)seed);
    w.random = random_from_seed(&w.seeded, (uint64_t)seed);
    struct error err = ERROR_NONE;
    cr_assert_eq(cluster_use(w.home, &w.cluster, &err), STATUS_OK, "%s", err.text);
    write_pipeline(&w);
    char command[512];
    snprintf(command, sizeof command, "%s apply %s --home %s >/dev/null", PGSTAGE_PROGRAM, w.file, w.home);
    cr_assert_eq(system(command), 0);
    free(ask_surely(&w, "create table if not exists ledger (key text not null, stage text not null, version bigint "
                        "not null)"));
    for (int i = 1; i <= rounds; i++) {
        round_of(&w, i);
    }
    sync_close(w.db);
    cluster_release(w.cluster);
    snprintf(command, sizeof command, "rm -rf %s", w.home);
    cr_expect_eq(system(command), 0);
}
