/* What a reload finds: in the files when a person asks, or only in the database; and what of it is taken. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/reload.h"
#include "cli/serving.h"
#include "rig.h"
#include "support/pg.h"

TestSuite(reload, .init = rig_begin, .fini = rig_end, .timeout = 120);

#define ONE "pipeline: p\nstages:\n  - {name: a, sql: select 1}\n"
#define TWO ONE "  - {name: b, sql: select 1}\n"

static char file[] = "p.yaml", other[] = "q.yaml", name[] = "p";

/* A node that works under the current definitions of its arguments. */
static struct {
    char *positional[2];
    bool named[2];
    struct args args;
    struct reload_source source;
    struct definition definitions[2];
    struct node_pipeline now[2];
    struct node_reload found;
} at;

static void start(int count, const char *option, const char *value) {
    at.positional[0] = at.positional[0] == NULL ? file : at.positional[0];
    at.positional[1] = other;
    for (int i = 0; i < count; i++) {
        rig_apply(at.positional[i], &at.definitions[i]);
    }
    at.args = rig_args(count, at.positional, option, value);
    cr_assert(serving_settle(&at.args, at.definitions, count));
    for (int i = 0; i < count; i++) {
        at.now[i] = definition_for_node(&at.definitions[i]);
    }
    at.source = (struct reload_source){&at.args, at.named, rig_url, at.definitions};
}

static void finish(void) {
    definition_finish(&at.definitions[0]);
    definition_finish(&at.definitions[1]);
}

static enum status read_again(bool files) {
    struct error err = ERROR_NONE;
    return reload_read(&at.source, at.now, files, &at.found, &err);
}

/* NULL: not rejected. */
static void expect_found(bool files, bool is_new, const char *rejected, const char *changes) {
    cr_assert_eq(read_again(files), STATUS_OK);
    const char *why = at.found.rejected[0];
    cr_expect_eq(at.found.is_new, is_new);
    cr_expect(rejected == NULL ? why == NULL : why != NULL && strstr(why, rejected) != NULL, "%s", why == NULL ? "none" : why);
    cr_expect(strstr(at.found.changes, changes) != NULL, "%s", at.found.changes);
    cr_expect(at.found.pipelines[0].def != at.now[0].def, "it is borrowed from the node that ends");
    cr_expect_str_eq(at.found.pipelines[0].def->name, "p");
    if (rejected != NULL) {
        cr_expect_eq(at.found.pipelines[0].revision, at.now[0].revision);
        cr_expect_str_eq(at.found.pipelines[0].def->text, at.now[0].def->text);
    }
    reload_release(&at.found);
}

/* A person may ask for new workers, say after a handler was built anew; a node by itself has no reason to. */
Test(reload, the_same_is_taken_when_a_person_asks) {
    rig_write(file, ONE);
    start(1, NULL, NULL);
    expect_found(true, true, NULL, "p: nothing");
    expect_found(false, false, NULL, "p: nothing");
    finish();
}

Test(reload, a_file_that_is_edited_is_read_when_a_person_asks) {
    rig_write(file, ONE);
    start(1, NULL, NULL);
    rig_write(file, TWO);
    expect_found(false, false, NULL, "p: nothing");
    expect_found(true, true, NULL, "p: stage 'b' added");
    cr_expect_eq(pg_int(rig_url, "select revision from pgstage.pipeline"), 2);
    expect_found(false, true, NULL, "p: stage 'b' added");
    finish();
}

Test(reload, what_is_wrong_is_rejected_and_the_old_stays) {
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"pipeline: p\nstages:\n  - {name: a, sgl: select 1}\n", "the file on disk is rejected: p.yaml:3:15: unknown key 'sgl'"},
        {"pipeline: q\nstages:\n  - {name: a, sql: select 1}\n", "the file on disk is rejected: p.yaml: it is of pipeline 'q' now"},
        {"pipeline: p\nstages:\n  - {name: a, handler: 'gone.so:x'}\n",
         "the file on disk is rejected: the handler of stage 'a' cannot be read"},
    };
    rig_write(file, ONE);
    start(1, NULL, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        rig_write(file, bad[i].text);
        expect_found(true, false, bad[i].why, "");
    }
    cr_expect_eq(pg_int(rig_url, "select count(*) from pgstage.revision"), 1);
    finish();
}

/* Applied on another host, where the handler is. A node that does not serve the stage needs no handler for it. */
Test(reload, a_revision_whose_handlers_are_not_here_is_rejected) {
    struct definition newer;
    rig_write(file, TWO);
    start(1, NULL, NULL);
    rig_write("newer.yaml", ONE "  - {name: b, handler: 'gone.so:x'}\n");
    rig_apply("newer.yaml", &newer);
    expect_found(false, false, "the current revision is rejected: the handler of stage 'b' cannot be read", "");
    at.args = rig_args(1, at.positional, "only", "a");
    expect_found(false, true, NULL, "");
    definition_finish(&newer);
    finish();
}

Test(reload, a_file_that_equals_an_older_revision_is_not_taken) {
    struct definition newer;
    rig_write(file, ONE);
    start(1, NULL, NULL);
    rig_write("newer.yaml", TWO);
    rig_apply("newer.yaml", &newer);
    cr_assert_eq(read_again(true), STATUS_OK);
    cr_expect_str_eq(at.found.rejected[0], "the file on disk is not taken: it equals revision 1, the current one is 2; pgstage "
                                           "apply p.yaml makes it the current one");
    cr_expect(at.found.is_new);
    cr_expect_eq(at.found.pipelines[0].revision, 2);
    reload_release(&at.found);
    definition_finish(&newer);
    finish();
}

Test(reload, a_definition_of_which_nothing_would_be_served_is_rejected) {
    struct definition newer;
    rig_write(file, TWO);
    start(1, "only", "b");
    rig_write("newer.yaml", ONE);
    rig_apply("newer.yaml", &newer);
    cr_assert_eq(read_again(false), STATUS_OK);
    cr_expect(!at.found.is_new);
    cr_expect_str_eq(at.found.rejected[0], "the new definition is rejected: this node would serve none of its stages");
    reload_release(&at.found);
    at.args = rig_args(1, at.positional, "only", "a,b");
    expect_found(false, true, NULL, "; no stage is named 'b' any more");
    definition_finish(&newer);
    finish();
}

/* ---- stages that get another name --------------------------------------------------------------------------------- */

#define NAMED(stage) ONE "  - {name: " stage ", workers: 2, sql: select 1}\n"

/* Whether the node would serve stage b of old, and with how many workers. */
static void expect_second(bool files, const char *name_now, bool here, int workers) {
    cr_assert_eq(read_again(files), STATUS_OK);
    const struct node_pipeline *found = &at.found.pipelines[0];
    cr_expect_null(at.found.rejected[0], "%s", at.found.rejected[0]);
    cr_expect(at.found.is_new);
    cr_expect_str_eq(found->def->stages[1].name, name_now);
    cr_expect_eq(found->elsewhere[1], !here, "%s", name_now);
    cr_expect_eq(found->def->stages[1].workers, workers, "%d", found->def->stages[1].workers);
    cr_expect_null(strstr(at.found.changes, "any more"), "%s", at.found.changes);
    reload_release(&at.found);
}

static const struct {
    const char *option, *value;
    bool a, b; /* which are served */
    int workers;
} followed[] = {
    {"stage", "b=0", true, false, 2},
    {"stage", "p/b=0", true, false, 2},
    {"stage", "b=7", true, true, 7},
    {"only", "b", false, true, 2},
    {"only", "a", true, false, 2},
};

/* Also when another host applied it, and when the node has missed a name between. */
Test(reload, options_follow_a_stage_that_gets_another_name) {
    for (size_t i = 0; i < sizeof followed / sizeof followed[0]; i++) {
        struct definition later;
        rig_write(file, NAMED("b"));
        start(1, followed[i].option, followed[i].value);
        cr_expect_eq(at.now[0].elsewhere[0], !followed[i].a);
        rig_write(file, NAMED("c, renamed_from: b"));
        expect_second(true, "c", followed[i].b, followed[i].workers);
        expect_second(false, "c", followed[i].b, followed[i].workers);
        rig_write("later.yaml", NAMED("d, renamed_from: c"));
        rig_apply("later.yaml", &later);
        expect_second(false, "d", followed[i].b, followed[i].workers);
        rig_write(file, "pipeline: p\nstages: 7\n"); /* what is rejected leaves what is, under its options */
        cr_assert_eq(read_again(true), STATUS_OK);
        cr_expect_not_null(at.found.rejected[0]);
        cr_expect_eq(at.found.pipelines[0].elsewhere[1], !followed[i].b);
        reload_release(&at.found);
        definition_finish(&later);
        finish();
        pg_exec(rig_url, "truncate pgstage.pipeline cascade");
    }
}

/* A stage that is not served needs no handler here, under its new name as little as under the old one. */
Test(reload, a_renamed_stage_that_is_not_served_needs_no_handler) {
    rig_write(file, ONE "  - {name: b, handler: 'gone.so:x'}\n");
    start(1, "stage", "b=0");
    rig_write(file, ONE "  - {name: c, renamed_from: b, handler: 'gone.so:x'}\n");
    expect_found(true, true, NULL, "stage 'b' is 'c' now");
    finish();
}

/* One that is rejected holds up no other, and is no reason for new workers by itself. */
Test(reload, of_two_pipelines_each_is_judged_by_itself) {
    rig_write(file, ONE);
    rig_write(other, "pipeline: q\nstages:\n  - {name: a, sql: select 1}\n");
    start(2, NULL, NULL);
    rig_write(file, "pipeline: p\nstages: 7\n");
    expect_found(true, false, "the file on disk is rejected", "q: nothing");
    rig_write(other, "pipeline: q\nstages:\n  - {name: a, sql: select 1, workers: 3}\n");
    cr_assert_eq(read_again(true), STATUS_OK);
    cr_expect(at.found.is_new);
    cr_expect_not_null(at.found.rejected[0]);
    cr_expect_null(at.found.rejected[1]);
    cr_expect_eq(at.found.pipelines[0].revision, 1);
    cr_expect_eq(at.found.pipelines[1].revision, 2);
    reload_release(&at.found);
    finish();
}

/* Each has its own reason. */
Test(reload, what_was_rejected_for_itself_stays_so_when_nothing_would_be_served) {
    rig_write(file, ONE);
    rig_write(other, "pipeline: q\nstages:\n  - {name: a, sql: select 1}\n  - {name: b, sql: select 1}\n");
    start(2, "only", "q/b");
    rig_write(file, "pipeline: p\nstages: 7\n");
    rig_write(other, "pipeline: q\nstages:\n  - {name: a, sql: select 1}\n");
    cr_assert_eq(read_again(true), STATUS_OK);
    cr_expect(!at.found.is_new);
    cr_expect_not_null(strstr(at.found.rejected[0], "the file on disk is rejected: p.yaml:2:9"), "%s", at.found.rejected[0]);
    cr_expect_not_null(strstr(at.found.rejected[1], "none of its stages"), "%s", at.found.rejected[1]);
    reload_release(&at.found);
    finish();
}

/* An argument that names a pipeline: there is no file to read. */
Test(reload, a_pipeline_that_is_named_is_read_from_the_database) {
    struct definition newer;
    rig_write(file, ONE);
    start(1, NULL, NULL);
    at.positional[0] = name;
    at.named[0] = true;
    rig_write(file, TWO);
    expect_found(true, true, NULL, "p: nothing");
    rig_apply(file, &newer);
    expect_found(true, true, NULL, "p: stage 'b' added");
    definition_finish(&newer);
    finish();
}

/* Its file lies in no folder of this host: handlers are looked for where they were. */
Test(reload, handlers_of_a_pipeline_that_is_named_lie_beside_its_file) {
    static char in_folder[] = "sub/p.yaml";
    struct definition newer;
    cr_assert_eq(mkdir("sub", 0777), 0);
    rig_write(in_folder, ONE);
    rig_write("sub/x.so", "");
    at.positional[0] = in_folder;
    start(1, NULL, NULL);
    at.positional[0] = name;
    at.named[0] = true;
    rig_write(in_folder, "pipeline: p\nstages:\n  - {name: a, handler: 'x.so:x'}\n");
    rig_apply(in_folder, &newer);
    pg_exec(rig_url, "update pgstage.revision set path = '/nowhere/at/all/p.yaml' where number = 2");
    expect_found(false, true, NULL, "");
    definition_finish(&newer);
    finish();
}

/* Nothing is known then: what was so before is not rejected, and it is read later. */
Test(reload, a_database_that_is_away_rejects_nothing) {
    rig_write(file, ONE);
    start(1, NULL, NULL);
    rig_write(file, TWO);
    pg_exec(rig_url, "create function away() returns trigger language plpgsql as $$ begin"
                     " raise 'the server is shutting down' using errcode = '57P01'; end $$;"
                     "create trigger away before insert on pgstage.revision for each row execute function away()");
    cr_expect_eq(read_again(true), STATUS_UNAVAILABLE);
    cr_expect_null(at.found.owner);
    at.source.url = "postgresql://127.0.0.1:1/x";
    cr_expect_eq(read_again(true), STATUS_UNAVAILABLE);
    cr_expect_null(at.found.owner);
    finish();
}
