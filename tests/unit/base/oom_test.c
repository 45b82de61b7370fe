#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/oom.h"

static char file[] = "/tmp/pgstage-test-XXXXXX";

static void write_file(const char *text) {
    FILE *open_file = fopen(file, "w");
    cr_assert_not_null(open_file);
    fputs(text, open_file);
    cr_assert_eq(fclose(open_file), 0);
}

static void init(void) {
    close(mkstemp(file));
}

static void finish(void) {
    unlink(file);
}

TestSuite(oom, .init = init, .fini = finish, .timeout = 30);

Test(oom, the_counter_is_read) {
    write_file("low 1\noom 2\noom_kill 30\noom_group_kill 4\n");
    cr_assert_eq(oom_count(file), 30);
    write_file("oom 2\n");
    cr_assert_eq(oom_count(file), -1);
    cr_assert_eq(oom_count("/nowhere"), -1);
    cr_assert_geq(oom_count(NULL), 0, "every kernel of today counts");
}

Test(oom, a_rise_explains_as_many_deaths_as_it_counts) {
    struct oom_watch watch;
    write_file("oom_kill 5\n");
    oom_watch_init(&watch, file);
    cr_assert_not(oom_watch_explains(&watch));
    write_file("oom_kill 7\n");
    cr_assert(oom_watch_explains(&watch));
    cr_assert(oom_watch_explains(&watch));
    cr_assert_not(oom_watch_explains(&watch));
}

Test(oom, a_rise_counts_until_the_second_look) {
    struct oom_watch watch;
    write_file("oom_kill 5\n");
    oom_watch_init(&watch, file);
    write_file("oom_kill 7\n");
    oom_watch_look(&watch);
    cr_assert(oom_watch_explains(&watch));
    oom_watch_look(&watch);
    cr_assert_not(oom_watch_explains(&watch));
}

Test(oom, without_a_counter_nothing_is_explained) {
    struct oom_watch watch;
    oom_watch_init(&watch, "/nowhere");
    oom_watch_look(&watch);
    cr_assert_not(oom_watch_explains(&watch));
}
