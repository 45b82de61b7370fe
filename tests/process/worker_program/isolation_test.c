/* What a run leaves behind is gone when the run is over: processes, files; who a worker runs as, and what it may load. (C48,
 * C76, C82a, C83) */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "rig.h"

static struct rig rig;
static char place[] = "/tmp/pgstage-test-XXXXXX"; /* with work/run, and outside/precious */

static char *in_place(const char *name) {
    return mem_format("%s/%s", place, name);
}

static void make_folder(const char *name) {
    char *path = in_place(name);
    cr_assert_eq(mkdir(path, 0700), 0);
    free(path);
}

static void make_file(const char *name) {
    char *path = in_place(name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    cr_assert_geq(fd, 0);
    close(fd);
    free(path);
}

static bool exists(const char *name) {
    char *path = in_place(name);
    struct stat found;
    bool is = lstat(path, &found) == 0;
    free(path);
    return is;
}

static void init(void) {
    cr_assert_not_null(mkdtemp(place));
    cr_assert_eq(chmod(place, 0755), 0);
    make_folder("work");
    make_folder("work/run");
    make_folder("outside");
    make_file("outside/precious");
}

static void finish(void) {
    rig_finish(&rig);
    char *command = mem_format("chmod -R u+rwx %s && rm -rf %s", place, place);
    cr_assert_eq(system(command), 0);
    free(command);
}

TestSuite(worker_isolation, .init = init, .fini = finish, .timeout = 300);

static struct wire_bytes bytes(const char *text) {
    return (struct wire_bytes){text, (uint32_t)strlen(text)};
}

/* A worker with a folder of its own. */
static void open_at_work(const char *handler) {
    char *work = in_place("work");
    struct wire_hello hello = rig_hello(HANDLERS, handler);
    hello.work = bytes(work);
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    free(work);
}

static json_t *run_for_output(uint64_t run, const char *payload) {
    struct wire_result result;
    rig_run(&rig, run, payload);
    rig_want_result(&rig, run, &result);
    cr_assert_eq(result.outcome, WIRE_OK, "%s", result.message.data);
    json_t *output = json_loads(result.output.data, JSON_DECODE_ANY, NULL);
    cr_assert_not_null(output);
    wire_result_finish(&result);
    return output;
}

static void want_gone(pid_t pid) {
    cr_assert_gt(pid, 1);
    cr_assert(kill(pid, 0) != 0 && errno == ESRCH, "process %ld lives", (long)pid);
}

/* ---- processes ---- */

Test(worker_isolation, nothing_that_a_handler_forked_outlives_its_run) {
    rig_open(&rig, "stray");
    for (uint64_t run = 1; run <= 3; run++) {
        buf_clear(&rig.logged);
        json_decref(run_for_output(run, NULL));
        want_gone(rig_want_pid(&rig, "child "));
        want_gone(rig_want_pid(&rig, "daemon "));
    }
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
}

Test(worker_isolation, what_init_made_lives_as_long_as_the_worker) {
    open_at_work("with_helper");
    pid_t helper = 0;
    for (uint64_t run = 1; run <= 3; run++) {
        json_t *output = run_for_output(run, NULL);
        pid_t found = (pid_t)json_integer_value(json_object_get(output, "helper"));
        cr_assert(run == 1 || found == helper);
        helper = found;
        cr_assert(json_is_true(json_object_get(output, "lives")));
        cr_assert(json_is_true(json_object_get(output, "model")), "a file of init's is kept");
        want_gone((pid_t)json_integer_value(json_object_get(output, "left")));
        json_decref(output);
    }
    cr_assert_eq(kill(helper, 0), 0);
    struct watched process = watch_process(helper);
    close(rig.node);
    rig.node = -1;
    cr_assert(ended_within(process, 2000), "it ends with the worker");
    close(process.pidfd);
}

/* ---- files ---- */

static void litter(uint64_t run) {
    char *payload = mem_format("{\"outside\": \"%s/outside\"}", place), *folder = in_place("work/run");
    json_t *output = run_for_output(run, payload);
    cr_assert_str_eq(json_string_value(json_object_get(output, "folder")), folder);
    cr_assert_eq(json_array_size(json_object_get(output, "found")), 0, "run %d found what an earlier one left", (int)run);
    json_decref(output);
    free(payload);
    free(folder);
}

Test(worker_isolation, a_run_begins_in_an_empty_folder_whatever_the_last_one_left) {
    open_at_work("litter");
    for (uint64_t run = 1; run <= 3; run++) {
        litter(run);
    }
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    cr_assert(exists("outside/precious"), "a link was followed");
    char *run = in_place("work/run");
    cr_assert_eq(rmdir(run), 0, "it is emptied after the last run, too");
    free(run);
}

Test(worker_isolation, a_link_in_the_folders_place_is_not_followed) {
    char *payload = mem_format("{\"outside\": \"%s/outside\"}", place);
    open_at_work("replace_folder");
    for (uint64_t run = 1; run <= 2; run++) {
        json_decref(run_for_output(run, payload));
    }
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    cr_assert(exists("outside/precious"));
    free(payload);
}

/* ---- users ---- */

enum { NOBODY = 65534 };

/* A handler that everybody may load: the build tree may be closed to others. */
static char *shared_handlers(void) {
    char *command = mem_format("mkdir -m 755 %s/lib && cp %s %s/lib/h.so && chmod 755 %s/lib/h.so", place, HANDLERS, place, place);
    cr_assert_eq(system(command), 0);
    free(command);
    return in_place("lib/h.so");
}

static void refuse_user(const char *file, const char *user, const char *reason) {
    struct wire_hello hello = rig_hello(file, "around");
    hello.user = bytes(user);
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_refused(&rig, reason);
    rig_finish(&rig);
}

/* Its exit is not looked at: the leak check does not work in a process that gave up root by its exec. */
static void refuse_without_root(const struct wire_hello *hello, const char *reason) {
    if (geteuid() == 0) {
        cr_assert_eq(seteuid(NOBODY), 0);
    }
    rig_start(&rig);
    (void)!seteuid(getuid());
    rig_say_hello(&rig, hello);
    struct wire_frame frame;
    struct wire_refused refused;
    cr_assert(rig_next(&rig, &frame));
    cr_assert_eq(wire_get_refused(&frame, &refused, NULL), STATUS_OK);
    cr_assert_not_null(strstr(refused.reason.data, reason), "%s", refused.reason.data);
}

Test(worker_isolation, a_user_that_there_is_not_is_refused) {
    refuse_user(HANDLERS, "no-such-user", "there is no user 'no-such-user' on this host, as whom the stage's workers run");
}

Test(worker_isolation, only_root_becomes_somebody_else) {
    struct wire_hello hello = rig_hello(HANDLERS, "around");
    hello.user = bytes("root");
    refuse_without_root(&hello, "for which the node must run as root; it runs as '");
}

Test(worker_isolation, a_worker_becomes_its_user_for_good) {
    if (geteuid() != 0) {
        cr_skip("only root becomes somebody else");
    }
    char *file = shared_handlers(), *work = in_place("work");
    struct wire_hello hello = rig_hello(file, "around");
    hello.user = bytes("nobody");
    hello.work = bytes(work);
    hello.nice = 3;
    cr_assert_eq(setgroups(1, (gid_t[]){0}), 0); /* as root has it from a login */
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    json_t *output = run_for_output(1, NULL);
    cr_assert_eq(json_integer_value(json_object_get(output, "uid")), NOBODY);
    cr_assert(json_is_false(json_object_get(output, "root_group")));
    cr_assert_eq(json_integer_value(json_object_get(output, "death_signal")), SIGTERM, "the node's death is still watched");
    cr_assert(json_is_false(json_object_get(output, "root_again")));
    cr_assert_eq(json_integer_value(json_object_get(output, "nice")), getpriority(PRIO_PROCESS, 0) + 3);
    json_decref(output);
    struct stat found;
    cr_assert(stat(work, &found) == 0 && found.st_uid == NOBODY, "its folder is its own");
    struct watched process = rig.process;
    close(rig.node);
    rig.node = -1;
    cr_assert(ended_within(process, 2000));
    free(file);
    free(work);
}

Test(worker_isolation, a_user_who_may_not_read_the_handler_is_told_so) {
    if (geteuid() != 0) {
        cr_skip("only root becomes somebody else");
    }
    char *file = shared_handlers();
    cr_assert_eq(chmod(file, 0700), 0);
    char *reason = mem_format("cannot open %s: the user 'nobody', as whom the worker runs, may not read it", file);
    refuse_user(file, "nobody", reason);
    free(reason);
    free(file);
}

Test(worker_isolation, niceness_is_added_or_refused) {
    struct wire_hello hello = rig_hello(HANDLERS, "around");
    hello.nice = 4;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    json_t *output = run_for_output(1, NULL);
    cr_assert_eq(json_integer_value(json_object_get(output, "nice")), getpriority(PRIO_PROCESS, 0) + 4);
    json_decref(output);
    rig_finish(&rig);

    hello.nice = -5;
    refuse_without_root(&hello, "limits: nice: -5 is refused: only a node that runs as root, or has the capability CAP_SYS_NICE, "
                                "may give its workers more than their share");
}

/* ---- what is loaded ---- */

Test(worker_isolation, what_others_may_write_to_is_not_loaded) {
    char *file = shared_handlers(), *folder = in_place("lib");
    struct wire_hello hello = rig_hello(file, "echo");
    char *reason = mem_format("%s is not loaded: everybody may write to it (chmod o-w %s)", file, file);
    cr_assert_eq(chmod(file, 0757), 0);
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_refused(&rig, reason);
    rig_finish(&rig);
    free(reason);
    cr_assert_eq(chmod(file, 0755), 0);
    cr_assert_eq(chmod(folder, 0777), 0);
    reason = mem_format("%s is not loaded: everybody may write to its folder (chmod o-w %s)", file, folder);
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_refused(&rig, reason);
    free(reason);
    free(file);
    free(folder);
}

/* ---- memory ---- */

#ifndef __SANITIZE_ADDRESS__ /* under which there is no limit of the address space */
static void crash_with(const char *payload, int64_t limit, bool marked) {
    char *work = in_place("work");
    struct wire_hello hello = rig_hello(HANDLERS, "grow_and_crash");
    hello.work = bytes(work);
    hello.address_space_bytes = limit;
    rig_start(&rig);
    rig_say_hello(&rig, &hello);
    rig_want_ready(&rig);
    rig_run(&rig, 1, payload);
    rig_want_signal(&rig, SIGSEGV);
    cr_assert_eq(exists("work/.out-of-memory"), marked);
    rig_finish(&rig);
    free(work);
}

Test(worker_isolation, a_crash_at_the_limit_of_memory_leaves_a_mark) {
    crash_with("{\"mb\": 10}", 400 << 20, false);
    crash_with("{\"mb\": 100000}", 400 << 20, true);
}
#endif

Test(worker_isolation, what_init_started_ends_with_the_worker_in_order) {
    rig_open(&rig, "helper");
    rig_run(&rig, 1, NULL);
    struct watched helper = rig_want_child(&rig);
    rig_want_output(&rig, 1, NULL);
    rig_stop(&rig);
    rig_want_exit(&rig, 0);
    cr_assert(ended_within(helper, 0));
}
