/* isolation_test.c - what a worker is given and what is left of it: environment, folder, strays, memory. (C11, C18, C48, C82b,
 * C83) */
#ifdef REAL_WORKER

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/children.h"
#include "base/environment.h"
#include "base/memory.h"
#include "rig.h"
#include "workers/orphans.h"
#include "workers/work_folder.h"

static char place[] = "/tmp/pgstage-test-XXXXXX";

static void init(void) {
    cr_assert_not_null(mkdtemp(place));
}

static void finish(void) {
    char command[128];
    snprintf(command, sizeof command, "chmod -R u+rwx %s && rm -rf %s", place, place);
    cr_assert_eq(system(command), 0);
}

TestSuite(isolation, .init = init, .fini = finish, .timeout = 120);

static struct rig *real_rig(const char *handler_name) {
    struct rig *rig = rig_create(handler_name);
    rig->options.program = REAL_WORKER;
    rig->spec.handler_file = TEST_HANDLERS;
    rig->spec.grace_ms = 100;
    return rig;
}

static void start_payload(struct rig *rig, const char *payload) {
    struct pool_task task = {.attempt = 1, .version = 1, .payload = {payload, strlen(payload)}};
    rig_start_task(rig, task, "doc-13");
}

static const struct rig_end *run_payload(struct rig *rig, const char *payload) {
    int before = rig->end_count;
    rig_wait_room(rig, rig->spec.workers);
    start_payload(rig, payload);
    rig_wait_ends(rig, before + 1);
    return &rig->ends[before];
}

/* ---- strays --------------------------------------------------------------------------------- */

static bool is_alive(pid_t pid) {
    return kill(pid, 0) == 0 || errno != ESRCH;
}

/* Both have left the session, and hold nothing of the worker's. */
static void no_stray_lives(struct rig *rig, const struct rig_end *end) {
    (void)rig;
    cr_assert_not(is_alive(rig_pid_in(end->last_output, "child")), "a child lives");
    cr_assert_not(is_alive(rig_pid_in(end->last_output, "daemon")), "a daemon lives");
}

struct stray_case {
    char payload[40];
    int64_t timeout_ms;
    enum pool_end end;
};

static struct stray_case stray_cases[] = {
    {"{\"then\": \"crash\"}", 0, POOL_CRASH},
    {"{\"then\": \"killed\"}", 0, POOL_LOST},
    {"{\"then\": \"exit\"}", 0, POOL_CRASH},
    {"{\"then\": \"hang\"}", 500, POOL_TIMEOUT},
};

ParameterizedTestParameters(isolation, no_daemon_outlives_its_worker) {
    return cr_make_param_array(struct stray_case, stray_cases, sizeof stray_cases / sizeof stray_cases[0]);
}

ParameterizedTest(struct stray_case *wanted, isolation, no_daemon_outlives_its_worker, .timeout = 120) {
    orphans_take_over();
    struct rig *rig = real_rig("stray");
    rig->spec.timeout_ms = wanted->timeout_ms;
    rig->on_ended = no_stray_lives;
    rig_open_up(rig);
    cr_assert_eq(run_payload(rig, wanted->payload)->end, wanted->end);
    rig_wait_room(rig, 1);
    rig_finish(rig); /* no child is left, not even a dead one */
}

static pid_t fork_child(void) {
    pid_t child = fork();
    if (child == 0) {
        for (;;) {
            pause();
        }
    }
    return child;
}

static void end_child(pid_t child) {
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

/* As the programs of the embedded database are. */
Test(isolation, other_children_of_the_process_are_not_touched) {
    orphans_take_over();
    children_private_begin();
    pid_t child = fork_child();
    cr_assert_not(orphans_are_gone(), "it cannot be known meanwhile");
    cr_assert(is_alive(child));
    end_child(child);
    children_private_end();
    cr_assert(orphans_are_gone());
}

Test(isolation, a_stray_is_killed_and_reaped_and_a_worker_is_not) {
    orphans_take_over();
    pid_t worker = fork_child(), stray = fork_child();
    orphans_know(worker);
    int looks = 0;
    while (!orphans_are_gone()) {
        cr_assert_lt(looks++, 100000);
    }
    cr_assert_gt(looks, 0);
    cr_assert_not(is_alive(stray));
    cr_assert(is_alive(worker));
    orphans_forget(worker);
    while (!orphans_are_gone()) {
    }
    cr_assert_not(is_alive(worker));
}

/* `program & exec pgstage`: whose they are could not be told later. */
Test(isolation, a_process_that_had_children_takes_nobody_over) {
    pid_t child = fork_child();
    orphans_take_over();
    cr_assert(orphans_are_gone());
    cr_assert(is_alive(child));
    end_child(child);
}

/* ---- environment ---------------------------------------------------------------------------- */

static const char *variable(char **environment, const char *name) {
    for (; *environment != NULL; environment++) {
        size_t length = strlen(name);
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
            return *environment + length + 1;
        }
    }
    return NULL;
}

Test(isolation, the_environment_has_what_is_listed_and_no_more) {
    static const char *const listed[] = {"LISTED", "NOT_THERE", "SET=1=2", "LANG=of the stage", "EMPTY=", NULL};
    clearenv();
    setenv("PATH", "/bin", 1);
    setenv("LC_ALL", "C", 1);
    setenv("LANG", "of the node", 1);
    setenv("TMPDIR", "/elsewhere", 1);
    setenv("LISTED", "yes", 1);
    setenv("PGPASSWORD", "canary", 1);
    setenv("PGSTAGE_DATABASE_URL", "postgresql://u:canary@h/d", 1);
    setenv("LC", "no locale", 1);
    setenv("PATHS", "canary", 1);
    struct environment_spec spec = {.pipeline = "library", .stage = "extract", .env = listed, .work = "/work/7"};
    struct arena arena = {0};
    char **environment = environment_build(&arena, &spec);
    int count = 0;
    while (environment[count] != NULL) {
        cr_assert_null(strstr(environment[count++], "canary"));
    }
    cr_assert_str_eq(variable(environment, "PATH"), "/bin");
    cr_assert_str_eq(variable(environment, "LC_ALL"), "C");
    cr_assert_str_eq(variable(environment, "LANG"), "of the stage");
    cr_assert_str_eq(variable(environment, "TMPDIR"), "/work/7/run");
    cr_assert_str_eq(variable(environment, "LISTED"), "yes");
    cr_assert_str_eq(variable(environment, "SET"), "1=2");
    cr_assert_str_eq(variable(environment, "EMPTY"), "");
    cr_assert_str_eq(variable(environment, "PGSTAGE_PIPELINE"), "library");
    cr_assert_str_eq(variable(environment, "PGSTAGE_STAGE"), "extract");
    cr_assert_eq(count, 9, "%d variables", count);
    arena_finish(&arena);
}

/* C82b: not even where /proc shows what a process began with. */
Test(isolation, no_secret_of_the_nodes_is_in_a_worker) {
    static const char *const listed[] = {"FOR_THE_HANDLER", NULL};
    setenv("PGPASSWORD", "canary", 1);
    setenv("PGSTAGE_DATABASE_URL", "postgresql://u:canary@h/d", 1);
    setenv("FOR_THE_HANDLER", "token", 1);
    struct rig *rig = real_rig("around");
    rig->spec.env = listed;
    rig_open_up(rig);
    const struct rig_end *end = run_payload(rig, "{}");
    cr_assert_eq(end->end, POOL_OK);
    cr_assert_null(strstr(end->output, "canary"));
    cr_assert_not_null(strstr(end->output, "FOR_THE_HANDLER=token"));
    cr_assert_not_null(strstr(end->output, "\"PATH="));
    rig_finish(rig);
}

/* ---- folders -------------------------------------------------------------------------------- */

static int count_entries(const char *path) {
    DIR *folder = opendir(path);
    int count = 0;
    while (folder != NULL && readdir(folder) != NULL) {
        count++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return folder == NULL ? -1 : count - 2; /* but . and .. */
}

static void each_worker_has_a_folder(const char *then) {
    char root[64], payload[160], outside[64], precious[80];
    snprintf(root, sizeof root, "%s/node.lock.work", place);
    snprintf(outside, sizeof outside, "%s/outside", place);
    snprintf(precious, sizeof precious, "%s/precious", outside);
    snprintf(payload, sizeof payload, "{\"outside\": \"%s\", \"then\": \"%s\"}", outside, then);
    cr_assert_eq(mkdir(outside, 0700), 0);
    cr_assert_eq(mkdir(precious, 0700), 0);
    struct rig *rig = real_rig("litter");
    rig->options.work_root = root;
    rig->spec.workers = 3;
    rig_open_up(rig);
    cr_assert_eq(count_entries(root), 3);
    bool dies = strcmp(then, "killed") == 0;
    cr_assert_eq(run_payload(rig, payload)->end, dies ? POOL_LOST : POOL_OK);
    rig_wait_room(rig, 3);
    while (count_entries(root) != 3) {
        rig_linger(rig, 1);
    }
    rig_finish(rig);
    cr_assert_eq(count_entries(root), -1, "the folder of a node that ended in order is gone");
    cr_assert_eq(count_entries(outside), 1, "a link was followed");
}

Test(isolation, each_worker_has_a_folder_as_long_as_it_lives) {
    each_worker_has_a_folder("");
}

Test(isolation, the_folder_of_a_worker_that_was_killed_is_removed) {
    each_worker_has_a_folder("killed");
}

Test(isolation, a_worker_without_a_folder_is_not_started) {
    char root[64];
    snprintf(root, sizeof root, "%s/there/is/none", place);
    struct rig *rig = real_rig("echo");
    rig->options.work_root = root;
    rig_open(rig);
    while (rig->ops.state(rig->pool, NULL) != POOL_PARKED) {
        rig_linger(rig, 1);
    }
    const char *reason = NULL;
    rig->ops.state(rig->pool, &reason);
    cr_assert_not_null(strstr(reason, "cannot make the folder '"), "%s", reason);
    rig_finish(rig);
}

/* ---- memory --------------------------------------------------------------------------------- */

static char counter[64];

static void set_counter(int kills) {
    FILE *file = fopen(counter, "w");
    cr_assert_not_null(file);
    fprintf(file, "low 0\noom 17\noom_kill %d\n", kills);
    cr_assert_eq(fclose(file), 0);
}

static struct rig *rig_with_counter(void) {
    snprintf(counter, sizeof counter, "%s/memory.events", place);
    set_counter(3);
    struct rig *rig = rig_create("normal");
    rig->options.oom_counter = counter;
    rig_open_up(rig);
    return rig;
}

Test(isolation, a_kill_for_memory_is_a_crash_of_its_own_kind) {
    struct rig *rig = rig_with_counter();
    set_counter(4);
    const struct rig_end *end = rig_run(rig, "signal:9");
    cr_assert_eq(end->end, POOL_CRASH);
    cr_assert_str_eq(end->kind, "memory");
    cr_assert_str_eq(end->message, "killed by signal 9 (SIGKILL): the machine, or its control group, ran out of memory");
    end = rig_run(rig, "signal:9");
    cr_assert_eq(end->end, POOL_LOST, "one kill explains one death");
    cr_assert_str_eq(end->kind, "killed");
    set_counter(5);
    cr_assert_str_eq(rig_run(rig, "signal:15")->kind, "killed");
    rig_finish(rig);
}

Test(isolation, a_kill_for_memory_of_long_ago_explains_nothing) {
    struct rig *rig = rig_with_counter();
    set_counter(4);
    rig_linger(rig, 2200); /* two looks, a second apart */
    cr_assert_str_eq(rig_run(rig, "signal:9")->kind, "killed");
    rig_finish(rig);
}

#ifndef __SANITIZE_ADDRESS__ /* under which there is no limit of the address space */
Test(isolation, a_crash_at_the_stages_limit_of_memory_is_one_for_memory) {
    struct rig *rig = real_rig("grow_and_crash");
    char root[64];
    snprintf(root, sizeof root, "%s/node.lock.work", place);
    rig->options.work_root = root;
    rig->spec.limits.address_space_bytes = 400 << 20;
    rig_open_up(rig);
    cr_assert_str_eq(run_payload(rig, "{\"mb\": 10}")->kind, "crash");
    const struct rig_end *end = run_payload(rig, "{\"mb\": 100000}");
    cr_assert_eq(end->end, POOL_CRASH);
    cr_assert_str_eq(end->kind, "memory");
    cr_assert_str_eq(end->message, "crashed: signal 11 (SIGSEGV): the stage's limit of memory was reached");
    cr_assert_str_eq(run_payload(rig, "{\"mb\": 10}")->kind, "crash");
    rig_finish(rig);
}
#endif

/* ---- silence -------------------------------------------------------------------------------- */

Test(isolation, silence_at_the_start_ends_the_run_that_waited_for_it) {
    struct rig *rig = rig_create("silent");
    rig->options.start_timeout_ms = 300;
    rig_open(rig);
    uint64_t run = rig_start_task(rig, (struct pool_task){.alone = true, .attempt = 1, .version = 1}, "echo");
    rig_wait_ends(rig, 1);
    const struct rig_end *end = rig_end_of(rig, run);
    cr_assert_eq(end->end, POOL_LOST);
    cr_assert_str_eq(end->kind, "silence");
    cr_assert_str_eq(end->message, "the worker process that was started for it said nothing at its start");
    rig_finish(rig);
}

#endif
