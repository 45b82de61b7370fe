/* documents_test.c - documents as the world has them: files of a source, odd names, large and hostile payloads: C72, C81. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"
#include "support/pg.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
    pg_exec(rig.url, "create table ledger (key text, stage text, version bigint)");
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(documents, .init = init, .fini = finish, .timeout = 180);

static void write_file(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/files/%s", rig.folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    fputs(text, file);
    fclose(file);
}

static void make_folder(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", rig.folder, name);
    cr_assert_eq(mkdir(path, 0755), 0);
}

Test(documents, a_source_is_scanned_at_start_and_again) {
    make_folder("files");
    make_folder("files/deep");
    rig_write(&rig, "p.yaml", "pipeline: p\nsource: {files: {path: files, match: ['*.txt'], every: 300ms}}\nstages:\n"
                              "  - {name: a, handler: '%L:ledger'}\n");
    write_file("one.txt", "1");
    write_file("deep/two.txt", "2");
    write_file("not.pdf", "3");
    write_file("odd \"name\"\n'; drop table ledger; --.txt", "4");
    write_file("latin\xff.txt", "5");
    cr_assert_eq(rig_run(&rig, NULL, "run p.yaml --until-idle --log warn"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), 4);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where key = 'latin%FF.txt'"), 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where key = 'deep/two.txt'"), 1);
    /* Nothing changed: nothing runs. */
    char *output = NULL;
    cr_assert_eq(rig_run(&rig, &output, "run p.yaml --until-idle --log warn"), 0);
    cr_expect_str_eq(output, "0 documents: nothing to do\n");
    free(output);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), 4);
    /* One file is edited while a node runs: that one runs again. */
    rig_start(&rig, 0, "--lease 5s");
    rig_await_log(&rig, 0, "source.scanned");
    write_file("one.txt", "1 and more");
    rig_await(&rig, "select count(*) from ledger where version = 2", 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger"), 5);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    rig_check_counts(&rig);
}

Test(documents, a_source_that_does_not_exist_is_named) {
    rig_write(&rig, "p.yaml", "pipeline: p\nsource: {files: {path: nowhere}}\nstages:\n  - {name: a, handler: '%L:step'}\n");
    char *output = NULL;
    rig_run(&rig, &output, "run p.yaml --until-idle");
    cr_expect_not_null(strstr(output, "nowhere"), "%s", output);
    free(output);
}

Test(documents, c81_names_are_values) {
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: a, handler: '%L:ledger'}\n  - name: b\n    sql: insert into "
                              "ledger (key, stage, version) values (:key, 'b', :version)\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    pg_exec(rig.url, "select pgstage.submit_set('p', array['x\"; drop table ledger; --', 'a-b', E'tab\\tline\\n', 'Ünï', "
                     "'pg_temp', repeat('k', 1024), E'\\\\x00', '{}', '$1', ':key'], array_fill('{}'::jsonb, array[10]), "
                     "null, null, null, false)");
    cr_expect_eq(rig_run(&rig, NULL, "run p.yaml --until-idle --log warn"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger l join pgstage.task t using (key)"), 20);
}

Test(documents, c72_an_output_that_jsonb_refuses_fails_its_document_alone) {
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: a, handler: '%H:bad_json', workers: 2}\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    rig_submit(&rig, "doc", 5, "{\"text\": \"plain\"}");
    int status = rig_run(&rig, NULL, "run p.yaml --until-idle --log warn");
    cr_expect_eq(status, 1);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status in ('done', 'failed')"), 5);
    cr_expect_eq(rig_number(&rig, "select count(*) from pgstage.task where status = 'failed' and error_text = ''"), 0);
    rig_check_counts(&rig);
}

Test(documents, a_million_bytes_pass_through_every_stage) {
    rig_write(&rig, "p.yaml", "pipeline: p\nstages:\n  - {name: a, handler: '%H:pass'}\n  - {name: b, handler: '%H:pass'}\n"
                              "  - name: c\n    sql: insert into ledger (key, stage, version) values (:key, 'c', "
                              "length(:input->>'text'))\n");
    cr_assert_eq(rig_run(&rig, NULL, "apply p.yaml"), 0);
    pg_exec(rig.url, "select pgstage.submit_set('p', (select array_agg('d' || i) from generate_series(1, 8) i), (select "
                     "array_agg(jsonb_build_object('text', repeat('ü', 1000000))) from generate_series(1, 8)), null, null, "
                     "null, false)");
    cr_expect_eq(rig_run(&rig, NULL, "run p.yaml --until-idle --log warn"), 0);
    cr_expect_eq(rig_number(&rig, "select count(*) from ledger where version = 1000000"), 8);
}
