/* Where a handler says that its task goes. */
#include <criterion/criterion.h>
#include <string.h>

#include "host_rig.h"

static pgstage_task *task;

static void begin(void) {
    task = new_task(NULL, NULL);
}

static void finish(void) {
    pgstage_host_task_destroy(task);
}

TestSuite(sdk_flow, .init = begin, .fini = finish, .timeout = 30);

static void want(enum pgstage_host_flow_kind kind, const char *target, int64_t delay_ms) {
    struct pgstage_host_flow flow = pgstage_host_flow(task);
    cr_assert_eq(flow.kind, kind);
    cr_assert_eq(flow.delay_ms, delay_ms);
    if (target == NULL) {
        cr_assert_null(flow.target.data);
    } else {
        cr_assert_str_eq(flow.target.data, target);
        cr_assert_eq(flow.target.length, strlen(target));
    }
}

Test(sdk_flow, goes_on_unless_it_is_told_otherwise) {
    want(PGSTAGE_HOST_GO_ON, NULL, 0);
    cr_assert_eq(pgstage_output(task, json_object()), PGSTAGE_OK);
    want(PGSTAGE_HOST_GO_ON, NULL, 0);
}

Test(sdk_flow, the_last_call_wins) {
    cr_assert_eq(pgstage_route(task, "review"), PGSTAGE_OK);
    want(PGSTAGE_HOST_ROUTE, "review", 0);
    cr_assert_eq(pgstage_snooze(task, 250), PGSTAGE_OK);
    want(PGSTAGE_HOST_SNOOZE, NULL, 250);
    cr_assert_eq(pgstage_finish(task), PGSTAGE_OK);
    want(PGSTAGE_HOST_FINISH, NULL, 0);
    cr_assert_eq(pgstage_route(task, "a"), PGSTAGE_OK);
    want(PGSTAGE_HOST_ROUTE, "a", 0);
}

/* The name is the caller's to free. */
Test(sdk_flow, a_route_keeps_a_copy_of_the_name) {
    char name[] = "review";
    cr_assert_eq(pgstage_route(task, name), PGSTAGE_OK);
    memset(name, 'x', sizeof name - 1);
    want(PGSTAGE_HOST_ROUTE, "review", 0);
}

Test(sdk_flow, what_cannot_be_fails_with_a_reason) {
    char longest[64] = "", longer[65] = "";
    memset(longest, 'n', 63);
    memset(longer, 'n', 64);
    cr_assert_eq(pgstage_route(task, longest), PGSTAGE_OK);
    const struct {
        const char *name, *why;
    } bad[] = {
        {NULL, "a route needs the name of a stage"},
        {"", "a route needs the name of a stage"},
        {"\xFF", "a route to what cannot be a stage's name"},
        {longer, "a route to what cannot be a stage's name: 'nnnn"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(pgstage_route(task, bad[i].name), PGSTAGE_FAIL);
        const char *message = pgstage_host_message(task).data;
        cr_assert_eq(strncmp(message, bad[i].why, strlen(bad[i].why)), 0, "%s", message);
    }
    cr_assert_eq(pgstage_snooze(task, -1), PGSTAGE_FAIL);
    cr_assert_str_eq(pgstage_host_message(task).data, "a snooze of -1 ms");
    want(PGSTAGE_HOST_ROUTE, longest, 0);
}
