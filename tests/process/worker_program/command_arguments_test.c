/* Placeholders: what they stand for, and that nothing of a document becomes more than a part of one argument. */
#include "command_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct command_rig c;

static void finish(void) {
    command_finish(&c);
}

TestSuite(worker_command_arguments, .fini = finish, .timeout = 180);

/* Its output is a list of its arguments, each between angle brackets, as text. */
#define SHOW "sh", "-c", "for a in \"$@\"; do printf '<%s>' \"$a\"; done", "show"

static void open_show(const char *const *arguments) {
    const char *all[16] = {SHOW};
    for (int i = 0; arguments[i] != NULL; i++) {
        all[4 + i] = arguments[i];
    }
    command_prepare(&c, all);
    c.hello.stdout_form = WIRE_STDOUT_TEXT;
}

Test(worker_command_arguments, placeholders_stand_for_what_the_task_has) {
    open_show((const char *const[]){"{key}", "{version}-{attempt}", "{pipeline}/{stage}", "{folder}", "{work}",
                                    "{payload.text}", "{payload.deep.list.1}", "{payload.deep}", "{input}", "{inputs.a.b.c}",
                                    "{with.size}{{}}", NULL});
    static const char config[] = "{\"size\":12}", payload[] = "{\"text\":\"a b\",\"deep\":{\"list\":[1,1e3]}}",
                      inputs[] = "{\"a.b\":{\"c\":true}}";
    c.hello.config = (struct wire_bytes){config, sizeof config - 1};
    command_open(&c);
    rig_send_run(&c.rig, &(struct wire_run){.run = 1,
                                            .lease_end_ms = INT64_MAX,
                                            .version = 3,
                                            .attempt = 2,
                                            .key = {"k", 1},
                                            .payload = {payload, sizeof payload - 1},
                                            .inputs = {inputs, sizeof inputs - 1}});
    char output[400];
    snprintf(output, sizeof output,
             "{\"text\":\"<k><3-2><library/extract><%s><%s><a b><1e3><{\\\"list\\\":[1,1e3]}><null><true><12{}>\"}", c.folder,
             c.run);
    rig_want_output(&c.rig, 1, output);
}

Test(worker_command_arguments, no_document_gets_out_of_its_argument) {
    open_show((const char *const[]){"{payload.x}", "--x={payload.x}", NULL});
    command_open(&c);
    static const struct {
        const char *payload, *output;
    } hostile[] = {
        {"{\"x\":\"; rm -rf /\"}", "{\"text\":\"<; rm -rf /><--x=; rm -rf />\"}"},
        {"{\"x\":\"$(id) `id` ${HOME} \\\\ ' \\\"\"}",
         "{\"text\":\"<$(id) `id` ${HOME} \\\\ ' \\\"><--x=$(id) `id` ${HOME} \\\\ ' \\\">\"}"},
        {"{\"x\":\"a\\nb c\"}", "{\"text\":\"<a\\nb c><--x=a\\nb c>\"}"},
        {"{\"x\":\"{key} {{ }} %s *\"}", "{\"text\":\"<{key} {{ }} %s *><--x={key} {{ }} %s *>\"}"},
        {"{\"x\":\"\"}", "{\"text\":\"<><--x=>\"}"},
        {"{\"x\":\"\\u00e4\\ud83d\\ude00\"}", "{\"text\":\"<\xC3\xA4\xF0\x9F\x98\x80><--x=\xC3\xA4\xF0\x9F\x98\x80>\"}"},
    };
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        command_expect(&c, i + 1, hostile[i].payload, hostile[i].output);
    }
}

Test(worker_command_arguments, what_no_argument_can_be_fails_the_task) {
    open_show((const char *const[]){"{payload.x}", NULL});
    command_open(&c);
    static const struct {
        const char *payload, *message;
    } bad[] = {
        {"{\"x\":\"-rf\"}", "the value for {payload.x} begins with '-' and would be taken for an option: '-rf'; give the "
                            "program an argument '--' before it, or write --name={...}"},
        {"{\"x\":-5}", "the value for {payload.x} begins with '-' and would be taken for an option: '-5'; give the "
                       "program an argument '--' before it, or write --name={...}"},
        {"{\"x\":\"a\\u0000b\"}", "the value for {payload.x} has a NUL character or half a surrogate pair, which no "
                                  "argument can hold"},
        {"{\"x\":\"\\udc00\"}", "the value for {payload.x} has a NUL character or half a surrogate pair, which no "
                                "argument can hold"},
        {"{}", "there is no value for {payload.x}"},
        {"{\"x\":null}", "there is no value for {payload.x}: it is null"},
        {"[]", "there is no value for {payload.x}"},
        {"\"x\"", "there is no value for {payload.x}"},
        {NULL, "there is no value for {payload.x}"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        command_run(&c, i + 1, bad[i].payload);
        command_want(&c, i + 1, WIRE_FAIL, NULL, bad[i].message);
    }
    char *long_one = malloc(300001);
    cr_assert_not_null(long_one);
    memset(long_one, 'x', 300000);
    memcpy(long_one, "{\"x\":\"", 6);
    memcpy(long_one + 299998, "\"}", 3);
    command_run(&c, 50, long_one);
    command_want(&c, 50, WIRE_FAIL, NULL,
                 "the arguments and the environment are longer than the system lets a program have: give what is large on "
                 "standard input");
    free(long_one);
    command_expect(&c, 51, "{\"x\":1}", "{\"text\":\"<1>\"}");
    command_stop(&c);
}

Test(worker_command_arguments, a_key_with_a_nul_is_not_cut) {
    open_show((const char *const[]){"{key}", NULL});
    command_open(&c);
    rig_send_run(&c.rig, &(struct wire_run){.run = 1, .lease_end_ms = INT64_MAX, .key = {"a\0b", 3}});
    command_want(&c, 1, WIRE_FAIL, NULL, "the key has a NUL character, which no argument can hold");
}

Test(worker_command_arguments, behind_two_dashes_anything_goes_and_so_do_the_author_s_own_options) {
    open_show((const char *const[]){"{with.option}", "--", "{payload.x}", NULL});
    c.hello.config = (struct wire_bytes){"{\"option\":\"-q\"}", 15};
    command_open(&c);
    command_expect(&c, 1, "{\"x\":\"-rf\"}", "{\"text\":\"<-q><--><-rf>\"}");
}

Test(worker_command_arguments, the_task_s_file_can_be_named) {
    command_prepare(&c, (const char *const[]){"cat", "{task}", NULL});
    command_open(&c);
    command_expect(&c, 1, "7",
                   "{\"pipeline\":\"library\",\"stage\":\"extract\",\"with\":{},\"key\":\"doc\",\"version\":1,\"attempt\":1,"
                   "\"payload\":7,\"input\":null,\"inputs\":{}}");
}

Test(worker_command_arguments, files_of_the_pipeline_s_folder_are_named_in_full) {
    open_show((const char *const[]){"data.txt", "sub", "absent.txt", "-data", "x data.txt", "../data.txt", NULL});
    command_write(&c, "data.txt", "x", false);
    command_write(&c, "-data", "x", false);
    char output[400];
    command_open(&c);
    snprintf(output, sizeof output, "{\"text\":\"<%s/data.txt><sub><absent.txt><-data><x data.txt><../data.txt>\"}", c.folder);
    command_expect(&c, 1, NULL, output);
}

Test(worker_command_arguments, the_program_may_lie_in_the_folder) {
    command_prepare(&c, (const char *const[]){"run.sh", NULL});
    command_write(&c, "run.sh", "#!/bin/sh\necho \"\\\"$0\\\"\"\n", true);
    command_open(&c);
    char output[100];
    snprintf(output, sizeof output, "\"%s/run.sh\"", c.folder);
    command_expect(&c, 1, NULL, output);
    char path[100];
    snprintf(path, sizeof path, "%s/run.sh", c.folder);
    unlink(path);
    command_run(&c, 2, NULL);
    char message[200];
    snprintf(message, sizeof message, "cannot start %s: No such file or directory", path);
    command_want(&c, 2, WIRE_RETRY, NULL, message);
    command_write(&c, "run.sh", "#!/nowhere/sh\n", true);
    command_run(&c, 3, NULL);
    snprintf(message, sizeof message, "cannot start %s: the interpreter in its first line is not there", path);
    command_want(&c, 3, WIRE_RETRY, NULL, message);
    command_write(&c, "run.sh", "echo 1\n", true);
    command_run(&c, 4, NULL);
    snprintf(message, sizeof message, "cannot start %s: it is neither a program nor a script that begins with #!", path);
    command_want(&c, 4, WIRE_RETRY, NULL, message);
}

/* FOLDER in the reason stands for the pipeline's folder. */
static void want_refused(const char *const *arguments, uint32_t batch_size, const char *reason) {
    command_prepare(&c, arguments);
    c.hello.batch_size = batch_size;
    command_write(&c, "plain", "", false);
    command_start(&c);
    char text[600];
    const char *folder = strstr(reason, "FOLDER");
    snprintf(text, sizeof text, "%.*s%s%s", folder == NULL ? 0 : (int)(folder - reason), reason,
             folder == NULL ? "" : c.folder, folder == NULL ? reason : folder + strlen("FOLDER"));
    rig_want_refused(&c.rig, text);
    command_finish(&c);
}

Test(worker_command_arguments, what_can_never_be_is_refused_at_the_start) {
    want_refused((const char *const[]){"no-such-program", NULL}, 0,
                 "there is no program 'no-such-program' in the pipeline's folder FOLDER, nor in PATH");
    want_refused((const char *const[]){"/no/such/program", NULL}, 0, "there is no program /no/such/program");
    want_refused((const char *const[]){"bin/x", NULL}, 0, "there is no program 'bin/x' in the pipeline's folder FOLDER");
    want_refused((const char *const[]){"./plain", NULL}, 0,
                 "the program FOLDER/./plain is not executable (chmod +x makes it so)");
    want_refused((const char *const[]){"", NULL}, 0, "argument 0 of the command, '': the name of the program is empty");
    want_refused((const char *const[]){"{key}", NULL}, 0,
                 "argument 0 of the command, '{key}': {key} in the name of the program: no document may say what is run");
#define KNOWN                                                                                                                 \
    "there are key, version, attempt, pipeline, stage, folder, work, task, payload, input, inputs and with, the last four " \
    "with .NAME; {{ and }} are braces"
    want_refused((const char *const[]){"cat", "{keys}", NULL}, 0,
                 "argument 1 of the command, '{keys}': the placeholder {keys} is not known; " KNOWN);
    want_refused((const char *const[]){"cat", "{key.a}", NULL}, 0,
                 "argument 1 of the command, '{key.a}': the placeholder {key.a} is not known; " KNOWN);
    want_refused((const char *const[]){"cat", "{payload.}", NULL}, 0,
                 "argument 1 of the command, '{payload.}': the placeholder {payload.} is not known; " KNOWN);
    want_refused((const char *const[]){"awk", "{print $1}", NULL}, 0,
                 "argument 1 of the command, '{print $1}': the placeholder {print $1} is not known; " KNOWN);
    want_refused((const char *const[]){"cat", "a}", NULL}, 0,
                 "argument 1 of the command, 'a}': a single '}': write }} for one that is no placeholder");
    want_refused((const char *const[]){"cat", "{key", NULL}, 0,
                 "argument 1 of the command, '{key': a single '{': write {{ for one that is no placeholder");
    want_refused((const char *const[]){"/bin/sh", "-ec", "echo {payload.a}", NULL}, 0,
                 "argument 2 of the command, 'echo {payload.a}': a document's text would be a part of a script; give it as "
                 "an argument of its own: [sh, -c, 'echo \"$1\"', sh, \"{payload.a}\"]");
    want_refused((const char *const[]){"cat", "{with.size}", NULL}, 0,
                 "argument 1 of the command, '{with.size}': there is no value for {with.size}");
    want_refused((const char *const[]){"cat", "{payload.a}", NULL}, 5,
                 "argument 1 of the command, '{payload.a}': {payload.a} is of one task, but a stage with 'batch' runs many at "
                 "once: read it from standard input");
}

static void want_untrusted(const char *const *arguments, const char *name) {
    command_prepare(&c, arguments);
    command_write(&c, name, "#!/bin/sh\n", true);
    char path[200], text[600];
    snprintf(path, sizeof path, "%s/%s", c.folder, name);
    cr_assert_eq(chmod(path, 0757), 0);
    command_start(&c);
    snprintf(text, sizeof text, "%s is not loaded: everybody may write to it (chmod o-w %s)", path, path);
    rig_want_refused(&c.rig, text);
    command_finish(&c);
}

Test(worker_command_arguments, what_everybody_could_have_changed_is_not_run) {
    want_untrusted((const char *const[]){"run.sh", NULL}, "run.sh");
    want_untrusted((const char *const[]){"sh", "run.sh", NULL}, "run.sh");
}

Test(worker_command_arguments, a_command_needs_a_work_folder) {
    command_prepare(&c, (const char *const[]){"cat", NULL});
    c.hello.work = (struct wire_bytes){0};
    command_start(&c);
    rig_want_refused(&c.rig, "a command needs a work folder, but the node gave none");
}
