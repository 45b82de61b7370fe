/* What a document does to its worker's folder is no matter of the next one: it is put right, or the worker ends. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/remove_tree.h"
#include "command_rig.h"

static struct command_rig c;

static void finish(void) {
    command_finish(&c);
}

TestSuite(worker_folder, .fini = finish, .timeout = 180);

static void run_version(int version) {
    rig_send_run(&c.rig, &(struct wire_run){.run = (uint64_t)version,
                                            .lease_end_ms = INT64_MAX,
                                            .version = version,
                                            .attempt = 1,
                                            .key = {"doc", 3}});
}

/* The worker says LAST, and ends without a word of what it was given. */
static void want_last(void) {
    struct wire_frame frame;
    cr_assert_not(rig_next(&c.rig, &frame), "a message of type %d", (int)frame.type);
    cr_assert(c.rig.said_last);
    rig_want_exit(&c.rig, 0);
}

/* Version 1 does that and answers 1, and the worker begins nothing more. */
static void want_last_after(const char *deed) {
    char script[512];
    snprintf(script, sizeof script, "[ $PGSTAGE_VERSION = 2 ] || { %s; }; echo $PGSTAGE_VERSION", deed);
    command_open_script(&c, script);
    run_version(1);
    run_version(2);
    rig_want_output(&c.rig, 1, "1");
    want_last();
}

/* Version 1 does that and answers 1; version 2 is done as if it had not. */
static void want_right_after(const char *deed) {
    char script[512];
    snprintf(script, sizeof script,
             "if [ $PGSTAGE_VERSION = 1 ]; then %s; echo 1; else\n"
             "echo \"\\\"$(cd ..; echo *) $(stat -c %%a . ..)\\\"\" | tr '\\n' ' '; fi", deed);
    command_open_script(&c, script);
    run_version(1);
    run_version(2);
    rig_want_output(&c.rig, 1, "1");
    rig_want_output(&c.rig, 2, "\"run 700 700\"");
    command_stop(&c);
}

/* ---- what cannot be put right ---- */

Test(worker_folder, one_that_is_removed_ends_the_worker) {
    want_last_after("d=$(dirname \"$PWD\"); cd /; rm -rf \"$d\"");
}

static void remove_old(void) {
    char path[80];
    struct error err = ERROR_NONE;
    snprintf(path, sizeof path, "%s.old", c.work);
    cr_assert_eq(remove_tree(AT_FDCWD, path, &err), STATUS_OK, "%s", err.text);
}

Test(worker_folder, one_that_is_replaced_ends_the_worker) {
    want_last_after("d=$(dirname \"$PWD\"); mv $d $d.old; mkdir -p $d/run");
    remove_old();
}

Test(worker_folder, one_with_a_link_in_its_place_ends_the_worker) {
    want_last_after("d=$(dirname \"$PWD\"); mv $d $d.old; ln -s $d.old $d");
    remove_old();
    cr_assert_eq(unlink(c.work), 0);
}

Test(worker_folder, one_that_goes_while_the_worker_is_idle_ends_it_before_a_run) {
    command_open_script(&c, "echo 1");
    struct error err = ERROR_NONE;
    cr_assert_eq(remove_tree(AT_FDCWD, c.work, &err), STATUS_OK, "%s", err.text);
    command_run(&c, 1, NULL);
    want_last();
}

Test(worker_folder, a_program_that_stays_gets_no_other_current_folder) {
    command_prepare(&c, (const char *const[]){"sh", "run.sh", NULL});
    c.hello.engine = WIRE_PROGRAM;
    command_write(&c, "run.sh",
                  "read hello; echo '{\"type\":\"ready\"}'; read task; rm -rf \"$PWD\"\n"
                  "echo '{\"type\":\"result\",\"id\":\"1\"}'; read stop", false);
    command_open(&c);
    command_run(&c, 1, NULL);
    rig_want_output(&c.rig, 1, NULL);
    want_last();
}

/* ---- what can ---- */

Test(worker_folder, what_lies_beside_the_current_folder_is_removed) {
    want_right_after("echo x > ../x; mkdir -p ../y/z/run; echo x > ../y/z/x; ln -s / ../root; mkdir ../.hidden");
    want_right_after("mkdir ../task.json ../result.json.d; : > ../run.old");
}

Test(worker_folder, what_was_there_at_the_start_stays) {
    char path[80];
    command_prepare(&c, (const char *const[]){"sh", "-c", "echo x > ../x; echo \"\\\"$(cd ..; echo *)\\\"\"", NULL});
    snprintf(path, sizeof path, "%s/model", c.work);
    cr_assert_eq(mkdir(path, 0700), 0);
    command_open(&c);
    for (uint64_t run = 1; run <= 3; run++) {
        command_expect(&c, run, NULL, "\"model run x\"");
    }
    cr_assert_eq(rmdir(path), 0);
    command_stop(&c);
}

Test(worker_folder, a_closed_one_is_opened_again) {
    want_right_after("chmod 500 .");
    want_right_after("chmod 0 ..");
    want_right_after("chmod 300 . ..");
}

Test(worker_folder, a_current_folder_that_is_gone_is_made_again) {
    want_right_after("rmdir \"$PWD\"");
    want_right_after("rmdir \"$PWD\"; : > ../run");
    want_right_after("rmdir \"$PWD\"; mkfifo ../run");
    want_right_after("mv \"$PWD\" ../old; mkdir ../old/x; ln -s old ../run");
}

/* ---- the files of a command ---- */

Test(worker_folder, a_folder_in_place_of_the_task_file_is_removed) {
    command_prepare(&c, (const char *const[]){"sh", "-c",
                                              "[ -f \"$0\" ] && rm -f \"$0\" && mkdir -p \"$0/x\" && echo $PGSTAGE_VERSION",
                                              "{task}", NULL});
    command_open(&c);
    for (int version = 1; version <= 3; version++) {
        run_version(version);
    }
    rig_want_output(&c.rig, 1, "1");
    rig_want_output(&c.rig, 2, "2");
    rig_want_output(&c.rig, 3, "3");
    command_stop(&c);
}

/* By somebody else, after the worker has looked. */
Test(worker_folder, what_comes_there_while_the_worker_is_idle_is_not_taken_for_a_task_s) {
    static const char *const names[] = {"task.json/x", "result.json/x"};
    command_prepare(&c, (const char *const[]){"sh", "-c", "[ -f \"$0\" ] && echo 1", "{task}", NULL});
    command_open(&c); /* READY: between two runs there is nothing that tells when it has looked */
    for (size_t i = 0; i < 2; i++) {
        char path[100];
        snprintf(path, sizeof path, "%s/%s", c.work, names[i]);
        *strrchr(path, '/') = '\0';
        cr_assert_eq(mkdir(path, 0700), 0);
        path[strlen(path)] = '/';
        cr_assert_eq(mkdir(path, 0700), 0);
    }
    command_expect(&c, 1, NULL, "1");
    command_stop(&c);
}

Test(worker_folder, a_result_file_that_is_no_file_is_a_breach) {
    command_open_script(&c, "case $PGSTAGE_VERSION in\n"
                            "1) mkdir -p \"$PGSTAGE_RESULT_FILE/x\" ;;\n"
                            "2) ln -s /etc/passwd \"$PGSTAGE_RESULT_FILE\" ;;\n"
                            "3) mkfifo \"$PGSTAGE_RESULT_FILE\" ;;\n"
                            "4) ln -s \"$PGSTAGE_RESULT_FILE\" \"$PGSTAGE_RESULT_FILE\" ;;\n"
                            "*) echo '{\"output\":5}' > \"$PGSTAGE_RESULT_FILE\" ;;\n"
                            "esac\n"
                            "echo 0");
    for (int version = 1; version <= 5; version++) {
        run_version(version);
    }
    for (uint64_t run = 1; run <= 4; run++) {
        command_want(&c, run, WIRE_CRASH, "protocol",
                     "the program's result file is no regular file: write the result itself to the path in PGSTAGE_RESULT_FILE");
    }
    rig_want_output(&c.rig, 5, "5");
    command_stop(&c);
}
