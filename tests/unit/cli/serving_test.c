/* serving_test.c - which stages a node serves: --stage, --only, --label, --schedules-only, and what stages require. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdlib.h>
#include <string.h>

#include "cli/serving.h"
#include "support/leaks.h"

TestSuite(serving, .init = cr_redirect_stderr, .timeout = 10);

struct given {
    const char *option, *value;
};

static int index_of(const char *option) {
    for (int i = 0; command_run_pipelines.options[i].name != NULL; i++) {
        if (strcmp(command_run_pipelines.options[i].name, option) == 0) {
            return i;
        }
    }
    cr_assert_fail("run has no option %s", option);
    return -1;
}

static struct args args_of(int count, const struct given *given) {
    struct args args = {.command = &command_run_pipelines};
    for (int i = 0; i < count && given[i].option != NULL; i++) {
        int option = index_of(given[i].option);
        args.values[option] = given[i].value;
        args.given[args.given_count].option = option;
        args.given[args.given_count++].value = given[i].value;
    }
    return args;
}

static struct args args_with(const char *option, const char *value) {
    return args_of(1, &(struct given){option, value});
}

static const char text[] = "pipeline: p\nstages:\n  - {name: a, sql: select 1, workers: 2}\n"
                           "  - {name: b, sql: select 1, requires: [gpu, zone=a]}\n  - {name: c, sql: select 1}\n";

static struct definition load(void) {
    struct definition definition = {0};
    struct config_report report = {0};
    struct error err = ERROR_NONE;
    leaks_fail_tests();
    cr_assert_eq(pipeline_parse("p.yaml", text, sizeof text - 1, &definition.def, &report, &err), STATUS_OK, "%s", err.text);
    config_report_finish(&report);
    return definition;
}

/* ---- what may be said ----------------------------------------------------------------------------------------------- */

Test(serving, a_count_of_workers_is_a_number_in_its_range) {
    static const char *const good[] = {"a=0", "a=1000", "p/a=3", "a=1,b=2", "a=007"};
    static const char *const bad[] = {"a",     "a=",     "=3",      "a=-1",  "a=+1", "a= 1",
                                      "a=3x",  "a=1001", "a=0x10",  "a=1.5", "a=1,b", "a=1,,b=2",
                                      "a=99999999999999999999999999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct args args = args_with("stage", good[i]);
        cr_expect(serving_check(&args), "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct args args = args_with("stage", bad[i]);
        cr_expect(!serving_check(&args), "%s", bad[i]);
    }
}

Test(serving, a_label_is_a_word) {
    struct args good = args_with("label", "gpu,zone=a,x.y-z_1"), bad = args_with("label", "gpu,two words");
    cr_expect(serving_check(&good));
    cr_expect(!serving_check(&bad));
}

Test(serving, labels_of_all_options_are_listed) {
    const struct given given[] = {{"label", "gpu,zone=a"}, {"only", "a"}, {"label", "cron"}};
    struct args args = args_of(3, given), none = args_of(0, NULL);
    char **labels = serving_labels(&args);
    cr_expect_str_eq(labels[0], "gpu");
    cr_expect_str_eq(labels[1], "zone=a");
    cr_expect_str_eq(labels[2], "cron");
    cr_expect_null(labels[3]);
    serving_labels_free(labels);
    labels = serving_labels(&none);
    cr_expect_null(labels[0]);
    serving_labels_free(labels);
}

/* ---- what is served ------------------------------------------------------------------------------------------------- */

static const struct {
    struct given given[4];
    const char *served; /* "" when the node has nothing to do; "-" when it only fires */
    int workers;        /* of a */
} cases[] = {
    {{{0}}, "ac", 2},
    {{{"label", "gpu"}}, "ac", 2},
    {{{"label", "gpu,zone=a"}}, "abc", 2},
    {{{"label", "zone=a"}, {"label", "gpu"}}, "abc", 2},
    {{{"label", "gpus,zone=a"}}, "ac", 2},
    {{{"label", "gp,zone=a"}}, "ac", 2},
    {{{"only", "a"}}, "a", 2},
    {{{"only", "c,a"}}, "ac", 2},
    {{{"only", "c"}, {"only", "a"}}, "ac", 2},
    {{{"only", "p/c"}}, "c", 2},
    {{{"only", "q/c"}}, "", 2},
    {{{"only", "pp/c"}}, "", 2},
    {{{"only", "b"}}, "", 2},
    {{{"only", "b"}, {"label", "gpu,zone=a"}}, "b", 2},
    {{{"stage", "a=5"}}, "ac", 5},
    {{{"stage", "p/a=5"}}, "ac", 5},
    {{{"stage", "q/a=5"}}, "ac", 2},
    {{{"stage", "a=5,c=0"}}, "a", 5},
    {{{"stage", "a=5"}, {"stage", "a=3"}}, "ac", 3},
    {{{"stage", "a=0"}}, "c", 2},
    {{{"stage", "a=0"}, {"only", "a"}}, "", 2},
    {{{"stage", "a=0,c=0"}}, "", 2},
    {{{"schedules-only", ""}}, "-", 2},
    {{{"schedules-only", ""}, {"label", "gpu,zone=a"}}, "-", 2},
};

Test(serving, a_stage_is_served_when_nothing_speaks_against_it) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct definition definition = load();
        struct args args = args_of(4, cases[i].given);
        for (int again = 0; again < 2; again++) { /* a start is tried again while the database is away */
            bool any = serving_settle(&args, &definition, 1);
            cr_expect_eq(any, cases[i].served[0] != '\0', "case %zu", i);
            for (int s = 0; s < 3; s++) {
                bool here = strchr(cases[i].served, definition.def->stages[s].name[0]) != NULL;
                cr_expect_eq(definition.elsewhere[s], !here, "case %zu: %s", i, definition.def->stages[s].name);
            }
            cr_expect_eq(definition.def->stages[0].workers, cases[i].workers, "case %zu", i);
        }
        definition_finish(&definition);
    }
}

/* ---- what a person is told ------------------------------------------------------------------------------------------ */

Test(serving, a_name_that_no_stage_has_is_found) {
    static const struct {
        struct given given;
        const char *unknown;
    } names[] = {
        {{"only", "a,nope"}, "nope"}, {{"only", "q/a"}, "q/a"},       {{"only", "p/a"}, NULL},       {{"only", "a"}, NULL},
        {{"stage", "x=3"}, "x"},      {{"stage", "a=3,q/a=1"}, "q/a"}, {{"stage", "p/b=1"}, NULL},
    };
    struct definition definition = load();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct args args = args_of(1, &names[i].given);
        size_t length = 0;
        const char *unknown = serving_unknown(&args, &definition, 1, &length);
        cr_assert_eq(unknown == NULL, names[i].unknown == NULL, "%s", names[i].given.value);
        if (unknown != NULL) {
            cr_expect_eq(length, strlen(names[i].unknown));
            cr_expect_eq(strncmp(unknown, names[i].unknown, length), 0, "%s", unknown);
        }
    }
    definition_finish(&definition);
}

Test(serving, labels_that_are_missing_are_named) {
    static const struct {
        struct given given;
        const char *missing;
    } labels[] = {{{0}, "gpu, zone=a"}, {{"label", "gpu"}, "zone=a"}, {{"label", "zone=a,gpu"}, ""}};
    struct definition definition = load();
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        struct args args = args_of(1, &labels[i].given);
        struct buf missing;
        buf_init(&missing, SIZE_MAX);
        serving_missing_labels(&args, &definition, &missing);
        cr_expect_str_eq(missing.data, labels[i].missing);
        buf_finish(&missing);
    }
    definition_finish(&definition);
}
