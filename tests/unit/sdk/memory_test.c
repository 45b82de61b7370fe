/* Every allocation fails once: each function then says so, and leaves the task as it was. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "host_rig.h"

TestSuite(sdk_memory, .fini = use_ordinary_allocator, .timeout = 60);

/* Uses all that allocates. True when no call failed. */
static bool use_everything(pgstage_task *task) {
    const char *parameters[] = {"a", NULL};
    bool ok = true;
    for (int i = 1; i <= 9; i++) {
        size_t before, after;
        pgstage_host_statements(task, &before);
        int code = pgstage_sql(task, "select $1, $2", 2, parameters);
        pgstage_host_statements(task, &after);
        cr_assert(code == 0 || code == PGSTAGE_E_MEMORY);
        cr_assert_eq(after, before + (code == 0));
        ok = ok && code == 0;
    }
    int code = pgstage_set_output(task, "[1]", 3);
    cr_assert(code == 0 || code == PGSTAGE_E_MEMORY);
    cr_assert(code == 0 ? strcmp(pgstage_host_output(task).data, "[1]") == 0
                        : pgstage_host_output(task).data == NULL);
    ok = ok && code == 0;
    ok = pgstage_payload_json(task) != NULL && ok;
    ok = pgstage_input_json(task) != NULL && ok;
    ok = pgstage_input_of(task, "extract") != NULL && ok;
    int logged = said.logs;
    pgstage_log_with(task, json_pack("{s:i}", "page", 1), "a line");
    cr_assert_eq(said.logs, logged + 1, "with its fields or without");
    ok = strcmp(said.fields, "(none)") != 0 && ok;
    json_t *value = json_pack("{s:[i]}", "a", 1);
    pgstage_result result = pgstage_output(task, value);
    cr_assert_eq(result, result == PGSTAGE_OK ? PGSTAGE_OK : PGSTAGE_FAIL);
    cr_assert_geq(strlen(pgstage_host_message(task).data), 1);
    return ok && result == PGSTAGE_OK;
}

Test(sdk_memory, the_nth_allocation_fails_for_every_n) {
    int n = 0;
    for (bool complete = false; !complete; n++) {
        use_failing_allocator(n);
        pgstage_task *task = new_task_like(&(struct pgstage_host_run){.payload = {"{\"a\": {\"b\": [1, \"x\"]}}", 22},
                                                                      .input = {"[1.5]", 5},
                                                                      .inputs = {"{\"extract\": [2]}", 16}});
        cr_assert_eq(task == NULL, n == 0);
        complete = task != NULL && use_everything(task);
        cr_assert_eq(complete, allocations <= n, "allocation %d", n);
        pgstage_host_task_destroy(task);
        cr_assert_eq(allocations_alive, 0, "allocation %d", n);
    }
    cr_assert_gt(n, 20);
}

Test(sdk_memory, the_same_for_a_worker) {
    int n = 0;
    for (bool complete = false; !complete; n++) {
        char reason[256] = "";
        use_failing_allocator(n);
        struct pgstage_host_text config = {"{\"a\": [\"x\"]}", 12};
        pgstage_worker *worker = pgstage_host_worker_create(config, "/", reason, sizeof reason);
        complete = worker != NULL;
        cr_assert_eq(complete, reason[0] == '\0');
        pgstage_host_worker_destroy(worker);
        cr_assert_eq(allocations_alive, 0, "allocation %d", n);
    }
    cr_assert_gt(n, 5);
}
