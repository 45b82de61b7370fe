#include "command_rig.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct wire_bytes bytes_of(const char *text) {
    return (struct wire_bytes){text, (uint32_t)strlen(text)};
}

static void make_folder(char *path, size_t size) {
    snprintf(path, size, "/tmp/pgstage-test-XXXXXX");
    cr_assert_not_null(mkdtemp(path));
}

void command_prepare(struct command_rig *c, const char *const *arguments) {
    *c = (struct command_rig){.rig = {.node = -1}};
    make_folder(c->folder, sizeof c->folder);
    make_folder(c->work, sizeof c->work);
    snprintf(c->run, sizeof c->run, "%s/run", c->work);
    cr_assert_eq(mkdir(c->run, 0700), 0);
    c->hello = rig_hello("", "");
    c->hello.engine = WIRE_COMMAND;
    c->hello.folder = bytes_of(c->folder);
    c->hello.work = bytes_of(c->work);
    for (; arguments[c->hello.argument_count] != NULL; c->hello.argument_count++) {
        c->arguments[c->hello.argument_count] = bytes_of(arguments[c->hello.argument_count]);
    }
    c->hello.arguments = c->arguments;
}

void command_start(struct command_rig *c) {
    rig_start(&c->rig);
    rig_say_hello(&c->rig, &c->hello);
}

void command_open(struct command_rig *c) {
    command_start(c);
    rig_want_ready(&c->rig);
}

void command_open_script(struct command_rig *c, const char *script) {
    command_prepare(c, (const char *const[]){"sh", "run.sh", NULL});
    command_write(c, "run.sh", script, false);
    command_open(c);
}

void command_stop(struct command_rig *c) {
    rig_stop(&c->rig);
    rig_want_exit(&c->rig, 0);
    cr_assert_eq(rmdir(c->run), 0, "something is left in the current folder");
    cr_assert_eq(rmdir(c->work), 0, "something is left in the work folder");
    command_finish(c);
}

static int remove_entry(const char *path, const struct stat *found, int type, struct FTW *at) {
    (void)found;
    (void)type;
    (void)at;
    return remove(path);
}

void command_finish(struct command_rig *c) {
    if (c->folder[0] == '\0') {
        return;
    }
    rig_finish(&c->rig);
    nftw(c->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    nftw(c->work, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    c->folder[0] = '\0';
}

void command_write(const struct command_rig *c, const char *name, const char *text, bool executable) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    fputs(text, file);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(chmod(path, executable ? 0755 : 0644), 0);
}

void command_run(struct command_rig *c, uint64_t run, const char *payload) {
    rig_run(&c->rig, run, payload);
}

void command_want(struct command_rig *c, uint64_t run, enum wire_outcome outcome, const char *kind, const char *message) {
    struct wire_result result;
    rig_want_result(&c->rig, run, &result);
    cr_assert_eq(result.outcome, outcome, "outcome %d: %s", (int)result.outcome, result.message.data);
    cr_assert_str_eq(result.message.data, message);
    cr_assert_str_eq(result.kind.data == NULL ? "" : result.kind.data, kind == NULL ? "" : kind);
    wire_result_finish(&result);
}

void command_expect(struct command_rig *c, uint64_t run, const char *payload, const char *output) {
    command_run(c, run, payload);
    rig_want_output(&c->rig, run, output);
}

pid_t command_want_pid(struct command_rig *c) {
    rig_want_printed(&c->rig, "pid ");
    rig_want_printed(&c->rig, ".");
    return (pid_t)atol(strstr(c->rig.printed.data, "pid ") + strlen("pid "));
}
