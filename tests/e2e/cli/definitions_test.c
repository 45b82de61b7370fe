/* definitions_test.c - what becomes of a definition in the database. */
#include "rig.h"

TestSuite(definitions, .init = cli_begin, .fini = cli_end, .timeout = 60);

/* The same text can come with other settings: from a newer program, or another environment. */
Test(definitions, settings_are_kept_and_renewed_without_a_new_revision) {
    make_pipeline();
    cr_expect_eq(number("select revision from pgstage.pipeline"), 1);
    cr_expect_eq(number("select count(*) from pgstage.revision where settings is not null"), 1);
    cr_expect_eq(number("with u as (update pgstage.revision set settings = '{\"x\": 1}' returning 1) select count(*) from u"), 1);
    cr_expect_eq(cli("apply lib.yaml")->status, 0);
    cr_expect_eq(number("select count(*) from pgstage.revision where settings ? 'x'"), 0);
    cr_expect_eq(number("select count(*) from pgstage.revision"), 1);
}

/* A program from before there were settings calls the function without them. */
Test(definitions, a_call_without_settings_leaves_them) {
    make_pipeline();
    cr_expect_eq(number("select count(*) from pgstage.register('lib', (select definition from pgstage.revision),"
                        " array['first', 'second'], 'run', null) where outcome = 'unchanged'"),
                 1);
    cr_expect_eq(number("select count(*) from pgstage.revision where settings is not null"), 1);
}
