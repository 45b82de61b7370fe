/* terminal_test.c - what is asked and shown on a terminal only. */
#include <stdlib.h>

#include "rig.h"

static void begin(void) {
    cli_begin();
    make_pipeline();
    write_file("l", "{\"key\":\"a\"}\n{\"key\":\"b\"}\n");
    cli_prints("2 submitted: 2 new, 0 updated, 0 unchanged\n", "submit lib --from l");
}

TestSuite(terminal, .init = begin, .fini = cli_end, .timeout = 60);

Test(terminal, a_filter_is_confirmed) {
    char *all = NULL;
    struct terminal *terminal = terminal_start("cancel lib --status ready");
    terminal_await(terminal, "cancel 2 tasks of pipeline 'lib'? [y/N] ");
    terminal_type(terminal, "y\n");
    cr_expect_eq(terminal_end(terminal, &all), 0);
    cr_expect(has(all, "2 cancelled"), "%s", all);
    cr_expect_eq(number("select count(*) from pgstage.task where status = 'cancelled'"), 2);
    free(all);
}

Test(terminal, anything_but_yes_changes_nothing) {
    static const char *const answers[] = {"\n", "n\n", "\004"};
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        char *all = NULL;
        struct terminal *terminal = terminal_start("rerun lib --all");
        terminal_await(terminal, "[y/N] ");
        terminal_type(terminal, answers[i]);
        cr_expect_eq(terminal_end(terminal, &all), 4);
        cr_expect(has(all, "nothing was changed"), "%s", all);
        free(all);
    }
    cr_expect_eq(number("select count(*) from pgstage.task where version = 1"), 2);
}

/* Asked where it can be read, and answered where it can be typed; else it is refused. */
Test(terminal, nobody_is_asked_who_cannot_answer) {
    char *all = NULL;
    cr_expect_eq(terminal_end(terminal_start("cancel lib --status ready </dev/null"), &all), 4);
    cr_expect(has(all, "say --yes to cancel them") && !has(all, "[y/N]"), "%s", all);
    free(all);
    cr_expect_eq(terminal_end(terminal_start("cancel lib --status ready 2>asked"), &all), 4);
    free(all);
    cr_expect_str_eq(shell("cat asked")->out, "pgstage: 2 tasks of pipeline 'lib' match; say --yes to cancel them\n");
    cr_expect_eq(number("select count(*) from pgstage.task where status = 'ready'"), 2);
}

Test(terminal, progress_is_shown_while_lines_are_submitted) {
    char *all = NULL;
    shell("seq 1 3000 | sed 's/.*/{\"key\":\"k&\"}/' >m");
    cr_expect_eq(terminal_end(terminal_start("submit lib --from m"), &all), 0);
    cr_expect(has(all, "\r1000 submitted\r2000 submitted"), "%s", all);
    cr_expect(has(all, "\033[K3000 submitted: 3000 new, 0 updated, 0 unchanged"), "%s", all);
    free(all);
}
