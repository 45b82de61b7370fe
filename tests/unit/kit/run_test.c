/* A handler runs in a test, and what it left can be looked at. */
#include <criterion/criterion.h>
#include <limits.h>
#include <string.h>

#include "subjects.h"
#include "support/leaks.h"

static pgstage_test *test;

static void finish(void) {
    leaks_fail_tests();
    pgstage_test_destroy(test);
    cr_assert_eq(page_lives, 0);
}

TestSuite(kit_run, .fini = finish, .timeout = 60);

static void open_test(const struct pgstage_handler *handler) {
    test = pgstage_test_create(handler);
}

Test(kit_run, a_handler_gets_what_was_set) {
    open_test(&pgstage_handler_everything);
    pgstage_test_set_pipeline(test, "library");
    pgstage_test_set_stage(test, "chunk");
    pgstage_test_set_key(test, "a/b");
    pgstage_test_set_version(test, 7);
    pgstage_test_set_attempt(test, 2);
    pgstage_test_set_last_progress(test, 0.25, "page 4");
    pgstage_test_set_remaining_ms(test, 1234);
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
    cr_assert_eq(pgstage_test_result(test), PGSTAGE_OK);
    cr_assert_str_eq(pgstage_test_message(test), "");
    size_t length;
    static const char expected[] = "{\"version\":7,\"attempt\":2,\"fraction\":0.25,\"text\":\"page 4\",\"cancelled\":false,"
                                   "\"superseded\":false,\"remaining\":1234}";
    cr_assert_str_eq(pgstage_test_output(test, &length), expected);
    cr_assert_eq(length, sizeof expected - 1);
    cr_assert_eq(json_integer_value(json_object_get(pgstage_test_output_json(test), "version")), 7);
    cr_assert_eq(pgstage_test_sql_count(test), 1);
    cr_assert_str_eq(pgstage_test_sql(test, 0), "insert into seen values ($1, $2, $3, $4)");
    cr_assert_eq(pgstage_test_parameter_count(test, 0), 4);
    cr_assert_str_eq(pgstage_test_parameter(test, 0, 0), "library");
    cr_assert_str_eq(pgstage_test_parameter(test, 0, 1), "chunk");
    cr_assert_str_eq(pgstage_test_parameter(test, 0, 2), "a/b");
    cr_assert_null(pgstage_test_parameter(test, 0, 3));
    cr_assert_str_eq(pgstage_test_route(test), "review");
}

Test(kit_run, what_the_handler_said_is_kept) {
    open_test(&pgstage_handler_everything);
    (void)pgstage_test_run(test);
    cr_assert_eq(pgstage_test_log_count(test), 2);
    cr_assert_str_eq(pgstage_test_log(test, 0), "a line");
    cr_assert_null(pgstage_test_log_fields(test, 0));
    cr_assert_str_eq(pgstage_test_log(test, 1), "a line of page 3");
    const json_t *fields = pgstage_test_log_fields(test, 1);
    cr_assert_eq(json_integer_value(json_object_get(fields, "page")), 3);
    cr_assert_eq(pgstage_test_progress_count(test), 1);
    double fraction;
    const char *text;
    pgstage_test_progress(test, 0, &fraction, &text);
    cr_assert_eq(fraction, 0.5);
    cr_assert_str_eq(text, "page 1 of 2");
    pgstage_test_progress(test, 0, NULL, NULL);
    (void)pgstage_test_run(test);
    cr_assert_eq(pgstage_test_log_count(test), 2, "of the last run only");
}

/* What begins as the documentation of test.h says. */
Test(kit_run, values_to_begin_with) {
    open_test(&pgstage_handler_everything);
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
    cr_assert_str_eq(pgstage_test_parameter(test, 0, 0), "test");
    cr_assert_str_eq(pgstage_test_parameter(test, 0, 1), "everything");
    cr_assert_str_eq(pgstage_test_parameter(test, 0, 2), "key");
    const json_t *output = pgstage_test_output_json(test);
    cr_assert_eq(json_integer_value(json_object_get(output, "version")), 1);
    cr_assert_eq(json_integer_value(json_object_get(output, "attempt")), 1);
    cr_assert_eq(json_integer_value(json_object_get(output, "remaining")), INT64_MAX);
    cr_assert_str_eq(json_string_value(json_object_get(output, "text")), "nothing");
}

Test(kit_run, payloads_and_inputs) {
    static const struct {
        const char *set, *said;
    } cases[] = {{"{\"pages\": 2}", "{\"pages\":2,\"seen\":1}"}, {"{}", NULL}, {NULL, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pgstage_test_destroy(test);
        open_test(&pgstage_handler_page);
        pgstage_test_set_payload(test, cases[i].set);
        cr_assert_eq(pgstage_test_run(test), cases[i].said == NULL ? PGSTAGE_FAIL : PGSTAGE_OK);
        cr_assert_str_eq(pgstage_test_message(test), cases[i].said == NULL ? "no \"pages\"" : "");
        const char *output = pgstage_test_output(test, NULL);
        cr_assert(output == cases[i].said || strcmp(output, cases[i].said) == 0);
    }
    pgstage_test_set_payload_json(test, json_pack("{s:i}", "pages", 3));
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
    cr_assert_eq(pgstage_test_progress_count(test), 3);
}

static const char *seen_input, *seen_inputs;

static pgstage_result see(pgstage_task *task, void *state) {
    (void)state;
    seen_input = pgstage_input(task, NULL);
    seen_inputs = pgstage_inputs(task, NULL);
    return PGSTAGE_OK;
}

static const struct pgstage_handler seeing = {
    .struct_size = sizeof(struct pgstage_handler), .abi = PGSTAGE_ABI, .name = "seeing", .run = see};

Test(kit_run, inputs_by_name) {
    open_test(&seeing);
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
    cr_assert_str_eq(seen_input, "null");
    cr_assert_str_eq(seen_inputs, "{}");
    pgstage_test_set_input(test, "123456789012345678901234567890");
    pgstage_test_set_input_of(test, "a \"b\"", "1e999");
    pgstage_test_set_input_of(test, "chunk", "[1]");
    pgstage_test_set_input_of(test, "chunk", NULL);
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
    cr_assert_str_eq(seen_input, "123456789012345678901234567890", "jansson has no such number, PostgreSQL has");
    cr_assert_str_eq(seen_inputs, "{\"a \\\"b\\\"\": 1e999, \"chunk\": null}");
    pgstage_test_set_input_json(test, json_pack("[i]", 1));
    (void)pgstage_test_run(test);
    cr_assert_str_eq(seen_input, "[1]");
    pgstage_test_set_input(test, NULL);
    (void)pgstage_test_run(test);
    cr_assert_str_eq(seen_input, "null");
}

/* ---- where it goes ---- */

Test(kit_run, only_what_would_count_is_shown) {
    static const struct {
        const char *key;
        pgstage_result result;
        bool has_output, finished;
        const char *route;
        int64_t snooze_ms;
        const char *message;
    } cases[] = {
        {"on", PGSTAGE_OK, true, false, NULL, -1, ""},
        {"route", PGSTAGE_OK, true, false, "review", -1, ""},
        {"finish", PGSTAGE_OK, true, true, NULL, -1, ""},
        {"snooze", PGSTAGE_OK, false, false, NULL, 5000, ""},
        {"route and fail", PGSTAGE_FAIL, false, false, NULL, -1, "after all"},
        {"nonsense", PGSTAGE_FAIL, false, false, NULL, -1, "the handler returned 7, which is no pgstage_result"},
    };
    open_test(&pgstage_handler_flow);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pgstage_test_set_key(test, cases[i].key);
        cr_assert_eq(pgstage_test_run(test), cases[i].result, "%s", cases[i].key);
        cr_assert_eq(pgstage_test_output(test, NULL) != NULL, cases[i].has_output, "%s", cases[i].key);
        cr_assert_eq(pgstage_test_sql_count(test), cases[i].has_output);
        cr_assert_eq(pgstage_test_finished(test), cases[i].finished);
        const char *route = pgstage_test_route(test);
        cr_assert(route == cases[i].route || strcmp(route, cases[i].route) == 0);
        cr_assert_eq(pgstage_test_snooze_ms(test), cases[i].snooze_ms);
        cr_assert_str_eq(pgstage_test_message(test), cases[i].message);
    }
}

/* ---- the worker's life ---- */

Test(kit_run, a_worker_lives_over_several_runs) {
    open_test(&pgstage_handler_page);
    pgstage_test_set_payload(test, "{\"pages\": 1}");
    for (int i = 1; i <= 3; i++) {
        cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
        cr_assert_eq(json_integer_value(json_object_get(pgstage_test_output_json(test), "seen")), i);
    }
    cr_assert_eq(page_lives, 1);
    pgstage_test_stop(test);
    cr_assert_eq(page_lives, 0);
    cr_assert_str_eq(pgstage_test_output(test, NULL), "{\"pages\":1,\"seen\":3}", "what it left stays");
    pgstage_test_stop(test);
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
    cr_assert_eq(json_integer_value(json_object_get(pgstage_test_output_json(test), "seen")), 1);
}

Test(kit_run, init_gets_its_configuration_and_may_fail) {
    open_test(&pgstage_handler_page);
    pgstage_test_set_payload(test, "{\"pages\": 5}");
    pgstage_test_set_with(test, "{\"limit\": \"x\"}");
    pgstage_test_set_folder(test, "/srv");
    cr_assert_eq(pgstage_test_start(test), PGSTAGE_FAIL);
    cr_assert_str_eq(pgstage_test_message(test), "limit is no number (/srv)");
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_FAIL);
    cr_assert_eq(pgstage_test_result(test), PGSTAGE_FAIL);
    cr_assert_str_eq(pgstage_test_message(test), "limit is no number (/srv)");
    cr_assert_null(pgstage_test_output(test, NULL));
    cr_assert_eq(pgstage_test_sql_count(test), 0);
    cr_assert_eq(pgstage_test_each_call(test, PGSTAGE_TEST_ALL_EVENTS, NULL, NULL), 0);
    pgstage_test_set_with(test, "{\"limit\": 2}");
    cr_assert_eq(pgstage_test_start(test), PGSTAGE_OK);
    cr_assert_str_eq(pgstage_test_message(test), "");
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
    cr_assert_eq(pgstage_test_progress_count(test), 2);
}

Test(kit_run, a_handler_of_a_shared_object) {
    test = pgstage_test_load(TEST_BINARY_DIR "/tests/handlers/test_handlers.so", "upper");
    pgstage_test_set_payload(test, "{\"text\": \"abc\"}");
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
    cr_assert_str_eq(pgstage_test_output(test, NULL), "{\"text\":\"ABC\"}");
}

/* Built against the first header, which knew no batches. */
Test(kit_run, a_handler_of_the_first_release) {
    test = pgstage_test_load(TEST_BINARY_DIR "/tests/handlers/frozen_v1.so", "frozen");
    pgstage_test_set_payload(test, "[1]");
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
    cr_assert_str_eq(pgstage_test_output(test, NULL), "{\"runs\":1,\"text\":\"null\",\"input\":null,\"payload\":[1]}");
}

/* Of release 0.2, as a batch of two. */
Test(kit_run, a_handler_of_the_second_release) {
    test = pgstage_test_load(TEST_BINARY_DIR "/tests/handlers/frozen_v1_1.so", "frozen");
    pgstage_test_set_folder(test, "/srv");
    pgstage_test_add_task(test);
    pgstage_test_set_payload(test, "[1]");
    pgstage_test_set_input_of(test, "extract", "[2]");
    pgstage_test_set_last_progress(test, 0.25, "a quarter");
    cr_assert_eq(pgstage_test_run_batch(test), PGSTAGE_OK);
    cr_assert_str_eq(pgstage_test_output(test, NULL),
                     "{\"runs\":2,\"input\":\"null\",\"folder\":\"/srv\",\"fraction\":0.25,\"text\":\"a quarter\","
                     "\"payload\":[1],\"parsed_input\":null,\"inputs_text\":\"{\\\"extract\\\": [2]}\","
                     "\"inputs\":{\"extract\":[2]},\"extract\":[2]}");
    cr_assert_str_eq(pgstage_test_route(test), "review");
    pgstage_test_select_task(test, 0);
    cr_assert_eq(json_integer_value(json_object_get(pgstage_test_output_json(test), "runs")), 1);
}

/* ---- batches ---- */

static void set_up_batch(void) {
    pgstage_test_set_payload(test, "{\"pages\": 1}");
    pgstage_test_add_task(test);
    pgstage_test_set_key(test, "second");
    pgstage_test_add_task(test);
    pgstage_test_set_key(test, "third");
    pgstage_test_set_payload(test, "{\"pages\": 2}");
}

Test(kit_run, a_batch_has_a_result_for_each_task) {
    open_test(&pgstage_handler_page);
    set_up_batch();
    cr_assert_eq(pgstage_test_task_count(test), 3);
    cr_assert_eq(pgstage_test_run_batch(test), PGSTAGE_OK);
    cr_assert_str_eq(pgstage_test_output(test, NULL), "{\"pages\":2,\"seen\":3}");
    cr_assert_eq(pgstage_test_progress_count(test), 2);
    pgstage_test_select_task(test, 1);
    cr_assert_eq(pgstage_test_result(test), PGSTAGE_FAIL);
    cr_assert_str_eq(pgstage_test_message(test), "no \"pages\"");
    pgstage_test_select_task(test, 0);
    cr_assert_str_eq(pgstage_test_output(test, NULL), "{\"pages\":1,\"seen\":1}");
    cr_assert_eq(pgstage_test_progress_count(test), 1);
}

Test(kit_run, a_batch_can_fail_as_a_whole) {
    open_test(&pgstage_handler_page);
    set_up_batch();
    pgstage_test_set_key(test, "poison");
    cr_assert_eq(pgstage_test_run_batch(test), PGSTAGE_RETRY);
    for (size_t i = 0; i < 3; i++) {
        pgstage_test_select_task(test, i);
        cr_assert_eq(pgstage_test_result(test), PGSTAGE_RETRY);
        cr_assert_null(pgstage_test_output(test, NULL));
    }
    cr_assert_str_eq(pgstage_test_message(test), "somebody is poison");
}

Test(kit_run, one_task_is_a_batch_for_who_knows_nothing_else) {
    open_test(&pgstage_handler_batch_only);
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_FAIL);
    cr_assert_str_eq(pgstage_test_message(test), "no \"pages\"");
    cr_assert_eq(pgstage_test_run_batch(test), PGSTAGE_OK);
    cr_assert_eq(pgstage_test_result(test), PGSTAGE_FAIL);
    pgstage_test_set_payload(test, "{\"pages\": 1}");
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
}
