/* trust_test.c - C82a: what a pipeline file may have loaded and started. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"

TestSuite(trust, .init = cli_begin, .fini = cli_end, .timeout = 120);

static void pipeline(const char *stage) {
    char yaml[512];
    snprintf(yaml, sizeof yaml, "pipeline: p\nstages:\n  - {name: work, %s}\n", stage);
    write_file("p.yaml", yaml);
}

/* By all commands that read the file, before anything is changed. */
static void refused(const char *reason) {
    static const char *const commands[] = {"check", "apply", "run --until-idle"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct run *run = cli("%s p.yaml", commands[i]);
        cr_expect_eq(run->status, 2, "%s: %d", commands[i], run->status);
        cr_expect(has(run->err, "stage 'work': ") && has(run->err, reason), "%s: %s", commands[i], run->err);
    }
    cr_expect_eq(number("select count(*) from pgstage.pipeline where name = 'p'"), 0);
}

Test(trust, a_path_that_leads_out_of_the_folder) {
    pipeline("handler: '../elsewhere.so:f'");
    refused("../elsewhere.so lies outside of the pipeline's folder: give its absolute path if that is meant");
    pipeline("handler: 'lib/../../bin/bash.so:f'");
    refused("lies outside of the pipeline's folder");
    cr_assert_eq(symlink("/bin/sh", "link.so"), 0);
    pipeline("handler: 'link.so:f'");
    refused("lies outside of the pipeline's folder, at ");
}

Test(trust, a_handler_that_is_not_built_yet_can_be_applied) {
    pipeline("handler: 'lib/later.so:f'");
    cr_expect_eq(cli("check p.yaml")->status, 0);
    cr_expect_eq(cli("apply p.yaml")->status, 0);
}

Test(trust, what_everybody_may_write_to) {
    write_file("h.so", "");
    write_file("run.sh", "");
    pipeline("handler: 'h.so:f'");
    cr_expect_eq(cli("check p.yaml")->status, 0);
    cr_assert_eq(chmod("h.so", 0666), 0);
    refused("everybody may write to it");
    cr_assert_eq(chmod("h.so", 0644), 0);
    cr_assert_eq(mkfifo("fifo.so", 0600), 0);
    pipeline("handler: 'fifo.so:f'");
    refused("is not a regular file");
    cr_assert_eq(chmod("run.sh", 0666), 0);
    pipeline("command: [sh, run.sh]");
    refused("everybody may write to it");
    pipeline("command: [sh, -c, 'exit 0']");
    cr_expect_eq(cli("check p.yaml")->status, 0, "what PATH finds is the system's");
    cr_assert_eq(chmod(".", 0777), 0);
    pipeline("handler: 'h.so:f'");
    refused("everybody may write to its folder");
}
