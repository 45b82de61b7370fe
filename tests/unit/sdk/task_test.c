/* What a handler reads of its task and says, and what the host gets of it. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_rig.h"

static pgstage_task *task;

static void finish(void) {
    pgstage_host_task_destroy(task);
}

TestSuite(sdk_task, .fini = finish, .timeout = 30);

Test(sdk_task, is_what_the_host_said) {
    task = new_task("{\"a\": [1, 2]}", "\"text\"");
    size_t length = 0;
    cr_assert_str_eq(pgstage_pipeline(task), "library");
    cr_assert_str_eq(pgstage_stage(task), "extract");
    cr_assert_str_eq(pgstage_key(task), "a/b");
    cr_assert_eq(pgstage_version(task), 77);
    cr_assert_eq(pgstage_attempt(task), 2);
    cr_assert_str_eq(pgstage_payload(task, &length), "{\"a\": [1, 2]}");
    cr_assert_eq(length, 13);
    cr_assert_str_eq(pgstage_input(task, &length), "\"text\"");
    cr_assert_eq(length, 6);
    cr_assert_eq(json_array_size(json_object_get(pgstage_payload_json(task), "a")), 2);
    cr_assert_str_eq(json_string_value(pgstage_input_json(task)), "text");
    cr_assert_eq(pgstage_payload_json(task), pgstage_payload_json(task), "it is parsed once");
}

Test(sdk_task, absent_texts_are_null) {
    task = new_task(NULL, NULL);
    size_t length = 0;
    cr_assert_str_eq(pgstage_payload(task, &length), "null");
    cr_assert_eq(length, 4);
    cr_assert_str_eq(pgstage_input(task, NULL), "null");
    cr_assert(json_is_null(pgstage_payload_json(task)));
    cr_assert(json_is_null(pgstage_input_json(task)));
}

Test(sdk_task, text_beyond_jansson_stays_readable) {
    task = new_task("12345678901234567890123", "{\"a\": 1e999}");
    cr_assert_null(pgstage_payload_json(task));
    cr_assert_null(pgstage_input_json(task));
    cr_assert_str_eq(pgstage_payload(task, NULL), "12345678901234567890123");
    cr_assert_str_eq(pgstage_host_message(task).data,
                     "the input cannot be parsed: real number overflow near '1e999'");
}

Test(sdk_task, inputs_are_known_by_name) {
    static const char inputs[] = "{\"extract\": {\"pages\": 3}, \"notes\": null}";
    task = new_task_like(&(struct pgstage_host_run){.inputs = {inputs, sizeof inputs - 1}});
    size_t length = 0;
    cr_assert_str_eq(pgstage_inputs(task, &length), inputs);
    cr_assert_eq(length, sizeof inputs - 1);
    cr_assert_eq(json_object_size(pgstage_inputs_json(task)), 2);
    const json_t *pages = json_object_get(pgstage_input_of(task, "extract"), "pages");
    cr_assert_eq(json_integer_value(pages), 3);
    cr_assert(json_is_null(pgstage_input_of(task, "notes")));
    cr_assert_null(pgstage_input_of(task, "chunk"));
    cr_assert_null(pgstage_input_of(task, NULL));
}

Test(sdk_task, without_inputs_there_is_an_empty_object) {
    task = new_task(NULL, NULL);
    size_t length = 0;
    cr_assert_str_eq(pgstage_inputs(task, &length), "{}");
    cr_assert_eq(length, 2);
    cr_assert(json_is_object(pgstage_inputs_json(task)));
    cr_assert_null(pgstage_input_of(task, "extract"));
}

Test(sdk_task, the_last_progress_is_what_the_host_kept) {
    double fraction = -1;
    const char *text = "untouched";
    task = new_task(NULL, NULL);
    cr_assert_not(pgstage_last_progress(task, &fraction, &text));
    cr_assert_eq(fraction, -1);
    cr_assert_str_eq(text, "untouched");
    pgstage_host_task_destroy(task);
    task = new_task_like(&(struct pgstage_host_run){
        .has_progress = true, .progress = 0.25, .progress_text = {"page 4 of 16", 12}});
    cr_assert(pgstage_last_progress(task, &fraction, &text));
    cr_assert_eq(fraction, 0.25);
    cr_assert_str_eq(text, "page 4 of 16");
    cr_assert(pgstage_last_progress(task, NULL, NULL));
    pgstage_host_task_destroy(task);
    task = new_task_like(&(struct pgstage_host_run){.has_progress = true});
    cr_assert(pgstage_last_progress(task, &fraction, &text));
    cr_assert_str_eq(text, "");
}

Test(sdk_task, answers_come_from_the_host) {
    task = new_task(NULL, NULL);
    cr_assert_not(pgstage_cancelled(task));
    cr_assert_not(pgstage_superseded(task));
    cr_assert_eq(pgstage_remaining_ms(task), 1234);
    said.cancelled = said.superseded = true;
    said.remaining_ms = 0;
    cr_assert(pgstage_cancelled(task));
    cr_assert(pgstage_superseded(task));
    cr_assert_eq(pgstage_remaining_ms(task), 0);
}

Test(sdk_task, log_lines_lose_their_last_newlines) {
    task = new_task(NULL, NULL);
    pgstage_log(task, "page %d of %d\n\n", 3, 9);
    cr_assert_str_eq(said.log, "page 3 of 9");
    pgstage_log(task, "\n");
    cr_assert_str_eq(said.log, "");
    pgstage_log(task, "two\nlines");
    cr_assert_str_eq(said.log, "two\nlines");
    cr_assert_eq(said.logs, 3);
}

Test(sdk_task, log_lines_have_fields) {
    task = new_task(NULL, NULL);
    json_t *fields = json_pack("{s:i, s:s}", "page", 3, "why", "empty \"x\"");
    pgstage_log_with(task, json_incref(fields), "page %d\n", 3);
    cr_assert_str_eq(said.log, "page 3");
    cr_assert_str_eq(said.fields, "{\"page\":3,\"why\":\"empty \\\"x\\\"\"}");
    cr_assert_eq(fields->refcount, 1, "it was taken");
    json_decref(fields);
    pgstage_log(task, "no fields");
    cr_assert_str_eq(said.fields, "(none)");
}

Test(sdk_task, a_line_is_logged_whatever_its_fields_are) {
    task = new_task(NULL, NULL);
    json_t *circle = json_object(), *const none[] = {NULL, json_array(), json_string("x"), json_object(), circle};
    json_object_set_nocheck(circle, "self", circle);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        pgstage_log_with(task, none[i], "line %zu", i);
        cr_assert_eq(said.logs, (int)i + 1);
        cr_assert_str_eq(said.fields, "(none)");
    }
    json_object_clear(circle);
    for (int length = PGSTAGE_HOST_FIELDS_MAX - 8; length <= PGSTAGE_HOST_FIELDS_MAX; length++) {
        json_t *fields = json_pack("{s:o}", "t", json_sprintf("%0*d", length - 8, 0));
        pgstage_log_with(task, fields, "as long as it may be");
        cr_assert_eq(strlen(said.fields), length);
    }
    pgstage_log_with(task, json_pack("{s:o}", "t", json_sprintf("%08185d", 0)), "too long");
    cr_assert_str_eq(said.fields, "{\"fields_too_long\":8193}");
}

Test(sdk_task, progress_is_kept_in_its_range) {
    static const struct {
        double given, told;
    } cases[] = {{0.0, 0.0},  {0.5, 0.5},       {1.0, 1.0},      {-0.1, 0.0},
                 {1.01, 1.0}, {-INFINITY, 0.0}, {INFINITY, 1.0}, {NAN, 0.0}};
    task = new_task(NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pgstage_progress(task, cases[i].given, "step %zu", i);
        cr_assert_float_eq(said.fraction, cases[i].told, 1e-9);
    }
    cr_assert_str_eq(said.progress, "step 7");
}

/* Two-byte characters, so that a cut after any number of bytes may fall into the middle of one. */
Test(sdk_task, long_texts_are_cut_between_characters) {
    task = new_task(NULL, NULL);
    char text[3 * 8192 + 4];
    for (int shift = 0; shift < 4; shift++) {
        static const char *const characters[] = {"\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
        for (int kind = 0; kind < 3; kind++) {
            size_t width = strlen(characters[kind]);
            memset(text, 'a', sizeof text);
            for (size_t i = (size_t)shift; i + width < sizeof text; i += width) {
                memcpy(text + i, characters[kind], width);
            }
            text[sizeof text - 4] = '\0';
            pgstage_log(task, "%s", text);
            pgstage_progress(task, 0.5, "%s", text);
            cr_assert_eq(pgstage_fail(task, "%s", text), PGSTAGE_FAIL);
            const char *const cut[] = {said.log, said.progress, pgstage_host_message(task).data};
            const size_t sizes[] = {8192, 1024, 8192};
            for (int i = 0; i < 3; i++) {
                size_t length = strlen(cut[i]);
                cr_assert(length < sizes[i] && length + width >= sizes[i], "%zu", length);
                cr_assert_eq((length - (size_t)shift) % width, 0);
            }
        }
    }
}

Test(sdk_task, bytes_that_are_no_characters_are_cut_anywhere) {
    task = new_task(NULL, NULL);
    char text[10000];
    memset(text, '\x80', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    pgstage_fail(task, "%s", text);
    cr_assert_eq(pgstage_host_message(task).length, 8191);
}

Test(sdk_task, a_message_that_cannot_be_formatted_says_so) {
    task = new_task(NULL, NULL);
    pgstage_fail(task, "%lc", (wint_t)0x20AC); /* in the C locale there is no such character */
    cr_assert_str_eq(pgstage_host_message(task).data, "(a message that cannot be formatted: %lc)");
}

Test(sdk_task, the_reason_is_the_last_one_given) {
    task = new_task(NULL, NULL);
    cr_assert_str_eq(pgstage_host_message(task).data, "the handler gave no reason");
    cr_assert_eq(pgstage_set_output(task, "nonsense", 8), PGSTAGE_E_INVALID);
    cr_assert_str_eq(pgstage_host_message(task).data, "the output is not JSON that can be stored: "
                                                      "byte 1: no JSON value begins so");
    cr_assert_eq(pgstage_retry(task, "busy: %s", "again"), PGSTAGE_RETRY);
    cr_assert_str_eq(pgstage_host_message(task).data, "busy: again");
    cr_assert_eq(pgstage_fail(task, "%d", 7), PGSTAGE_FAIL);
    cr_assert_str_eq(pgstage_host_message(task).data, "7");
    cr_assert_eq(pgstage_host_message(task).length, 1);
}

/* ---- the worker ---- */

TestSuite(sdk_worker, .timeout = 30);

Test(sdk_worker, has_its_configuration_and_a_reason) {
    char reason[256] = "";
    pgstage_worker *worker = pgstage_host_worker_create(
        (struct pgstage_host_text){"{\"model\": \"x\"}", 14}, "/srv/pipelines", reason, sizeof reason);
    cr_assert_not_null(worker);
    const json_t *model = json_object_get(pgstage_worker_config(worker), "model");
    cr_assert_str_eq(json_string_value(model), "x");
    cr_assert_str_eq(pgstage_worker_folder(worker), "/srv/pipelines");
    cr_assert_str_eq(pgstage_host_worker_message(worker), "the handler gave no reason");
    cr_assert_eq(pgstage_worker_fail(worker, "no %s", "model"), PGSTAGE_FAIL);
    cr_assert_str_eq(pgstage_host_worker_message(worker), "no model");
    pgstage_host_worker_destroy(worker);
    pgstage_host_worker_destroy(NULL);
}

Test(sdk_worker, without_a_known_folder_it_is_the_current_one) {
    char reason[256] = "";
    pgstage_worker *worker =
        pgstage_host_worker_create((struct pgstage_host_text){"{}", 2}, NULL, reason, sizeof reason);
    cr_assert_str_eq(pgstage_worker_folder(worker), ".");
    pgstage_host_worker_destroy(worker);
}

Test(sdk_worker, a_configuration_that_is_no_object_is_refused) {
    static const struct {
        const char *config, *reason;
    } cases[] = {
        {"[]", "the stage's configuration cannot be used: it is no JSON object"},
        {"{", "the stage's configuration cannot be used: string or '}' expected near end of file"},
        {"", "the stage's configuration cannot be used: '[' or '{' expected near end of file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char reason[256] = "";
        struct pgstage_host_text config = {cases[i].config, strlen(cases[i].config)};
        cr_assert_null(pgstage_host_worker_create(config, NULL, reason, sizeof reason));
        cr_assert_str_eq(reason, cases[i].reason);
    }
}
