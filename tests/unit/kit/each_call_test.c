/* What may happen to a run happens at each of its SDK calls, and what a run loses is found. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "subjects.h"
#include "support/leaks.h"

static pgstage_test *test;

static void finish(void) {
    leaks_fail_tests();
    pgstage_test_destroy(test);
    cr_assert_eq(page_lives, 0);
}

TestSuite(kit_calls, .fini = finish, .timeout = 60);

static void open_test(const struct pgstage_handler *handler, const char *payload) {
    test = pgstage_test_create(handler);
    pgstage_test_set_payload(test, payload);
}

/* A function of handler.h that told nobody of its call would leave a moment untested. */
Test(kit_calls, each_function_is_a_call) {
    static const char *const functions[] = {
        "pgstage_pipeline", "pgstage_stage", "pgstage_key", "pgstage_version", "pgstage_attempt", "pgstage_payload",
        "pgstage_payload_json", "pgstage_input", "pgstage_input_json", "pgstage_inputs", "pgstage_inputs_json",
        "pgstage_input_of", "pgstage_last_progress", "pgstage_cancelled", "pgstage_superseded", "pgstage_remaining_ms",
        "pgstage_set_output", "pgstage_output", "pgstage_sql", "pgstage_log", "pgstage_log_with", "pgstage_progress",
        "pgstage_fail", "pgstage_retry", "pgstage_route", "pgstage_finish", "pgstage_snooze", "pgstage_route",
    };
    const int count = (int)(sizeof functions / sizeof functions[0]);
    open_test(&pgstage_handler_everything, NULL);
    (void)pgstage_test_run(test);
    cr_assert_eq(pgstage_test_call_count(test), count);
    cr_assert_str_eq(pgstage_test_injected(test), "");
    for (int call = 1; call <= count; call++) {
        char expected[100];
        snprintf(expected, sizeof expected, "a newer version at call %d, %s", call, functions[call - 1]);
        pgstage_test_inject(test, PGSTAGE_TEST_SUPERSEDE, call);
        (void)pgstage_test_run(test);
        cr_assert_str_eq(pgstage_test_injected(test), expected);
    }
}

/* Calls of `page` with three pages: 1 payload; 2 + 3i cancelled, 3 + 3i superseded, 4 + 3i progress; 11 output. */
struct seen {
    int runs[16]; /* by event */
    int wrong;
};

static void check_page(pgstage_test *of, unsigned event, int call, void *context) {
    struct seen *seen = context;
    seen->runs[event]++;
    bool tells = event != PGSTAGE_TEST_NO_MEMORY;
    bool stops = tells && call <= (event == PGSTAGE_TEST_SUPERSEDE ? 9 : 8);
    pgstage_result expected = stops ? PGSTAGE_RETRY : tells ? PGSTAGE_OK : PGSTAGE_FAIL;
    seen->wrong += pgstage_test_result(of) != expected;
    if (stops) {
        int pages_done = event == PGSTAGE_TEST_SUPERSEDE ? (call - 1) / 3 : call / 3;
        char message[100];
        snprintf(message, sizeof message, "stopped before page %d, %s ms left", pages_done + 1,
                 event == PGSTAGE_TEST_DEADLINE ? "0" : "1000");
        seen->wrong += strcmp(pgstage_test_message(of), message) != 0;
    } else if (expected == PGSTAGE_OK) {
        seen->wrong += json_object_size(pgstage_test_output_json(of)) != 2;
    }
}

Test(kit_calls, each_event_happens_at_each_call) {
    struct seen seen = {0};
    open_test(&pgstage_handler_page, "{\"pages\": 3}");
    pgstage_test_set_remaining_ms(test, 1000);
    int checked = pgstage_test_each_call(test, PGSTAGE_TEST_ALL_EVENTS, check_page, &seen);
    cr_assert_eq(checked, 4 * 11, "%s", pgstage_test_problem(test));
    for (unsigned event = 1; event < PGSTAGE_TEST_ALL_EVENTS; event <<= 1) {
        cr_assert_eq(seen.runs[event], 11);
    }
    cr_assert_eq(seen.wrong, 0);
    cr_assert_str_eq(pgstage_test_problem(test), "");
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK, "nothing is injected afterwards");
}

Test(kit_calls, only_the_events_that_are_asked_for) {
    struct seen seen = {0};
    open_test(&pgstage_handler_page, "{\"pages\": 3}");
    pgstage_test_set_remaining_ms(test, 1000);
    cr_assert_eq(pgstage_test_each_call(test, PGSTAGE_TEST_CANCEL | PGSTAGE_TEST_SUPERSEDE, check_page, &seen), 22);
    cr_assert_eq(seen.runs[PGSTAGE_TEST_CANCEL], 11);
    cr_assert_eq(seen.runs[PGSTAGE_TEST_SUPERSEDE], 11);
    cr_assert_eq(pgstage_test_each_call(test, 0, check_page, &seen), 0);
}

Test(kit_calls, a_batch_counts_the_calls_of_all_its_tasks) {
    open_test(&pgstage_handler_page, "{\"pages\": 1}");
    pgstage_test_add_task(test);
    pgstage_test_set_payload(test, "{\"pages\": 2}");
    cr_assert_eq(pgstage_test_each_call(test, PGSTAGE_TEST_ALL_EVENTS, NULL, NULL), 4 * (6 + 9), "%s",
                 pgstage_test_problem(test));
}

Test(kit_calls, a_long_run_is_tried_at_its_first_calls) {
    open_test(&pgstage_handler_page, "{\"pages\": 600}");
    pgstage_test_set_with(test, "{\"limit\": 600}");
    cr_assert_eq(pgstage_test_each_call(test, PGSTAGE_TEST_CANCEL, NULL, NULL), PGSTAGE_TEST_CALLS_MAX);
}

Test(kit_calls, who_makes_no_call_has_no_moments) {
    open_test(&pgstage_handler_silent, NULL);
    cr_assert_eq(pgstage_test_each_call(test, PGSTAGE_TEST_ALL_EVENTS, NULL, NULL), 0);
}

/* The allocators are what they were, for the SDK and for jansson. */
Test(kit_calls, memory_is_short_only_for_the_run) {
    json_malloc_t allocate;
    json_free_t release;
    open_test(&pgstage_handler_page, "{\"pages\": 1}");
    pgstage_test_inject(test, PGSTAGE_TEST_NO_MEMORY, 5);
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_FAIL);
    cr_assert_str_eq(pgstage_test_message(test), "the output cannot be written as JSON (does it contain itself, or is memory short?)");
    json_get_alloc_funcs(&allocate, &release);
    cr_assert_eq(allocate, malloc);
    cr_assert_eq(release, free);
    pgstage_test_inject(test, 0, 0);
    cr_assert_eq(pgstage_test_run(test), PGSTAGE_OK);
}

/* ---- leaks ---- */

Test(kit_leaks, who_loses_nothing_is_not_blamed, .fini = finish, .timeout = 60) {
    static const char *const harmless[] = {"\"\"", "\"once\"", "\"thrice\"", "\"swap\"", "\"when cancelled\""};
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
        pgstage_test_destroy(test);
        open_test(&pgstage_handler_leaky, harmless[i]);
        cr_assert_eq(pgstage_test_leaked_bytes(test), 0, "%s", harmless[i]);
    }
    pgstage_test_destroy(test);
    open_test(&pgstage_handler_page, "{\"pages\": 3}");
    cr_assert_eq(pgstage_test_leaked_bytes(test), 0);
}

static void keep_something(pgstage_test *of, unsigned event, int call, void *context) {
    (void)of;
    (void)event;
    (void)call;
    char **kept = context;
    char *longer = realloc(*kept, (*kept == NULL ? 0 : strlen(*kept)) + 200);
    if (*kept == NULL) {
        longer[0] = '\0';
    }
    strcat(longer, "something that a test framework keeps of each check");
    *kept = longer;
}

Test(kit_leaks, what_a_check_keeps_is_its_own_affair, .fini = finish, .timeout = 60) {
    char *kept = NULL;
    open_test(&pgstage_handler_page, "{\"pages\": 3}");
    int checked = pgstage_test_each_call(test, PGSTAGE_TEST_ALL_EVENTS, keep_something, &kept);
    cr_assert_eq(checked, 44, "%s", pgstage_test_problem(test));
    free(kept);
}

static void give_something_back(pgstage_test *of, unsigned event, int call, void *context) {
    (void)of;
    (void)event;
    void **hoard = context;
    free(hoard[call]);
    hoard[call] = NULL;
}

/* The leak checker shall not blame this program for what is lost on purpose. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#define LOSE_ON_PURPOSE() __lsan_disable()
#else
#define LOSE_ON_PURPOSE() (void)0
#endif

Test(kit_leaks, what_is_lost_is_found_and_where, .fini = finish, .timeout = 60) {
    static const struct {
        const char *payload;
        bool always;
        unsigned event;
        const char *after;
    } cases[] = {
        {"\"malloc\"", true, PGSTAGE_TEST_CANCEL, "after a cancel at call 1, pgstage_payload"},
        {"\"json\"", true, PGSTAGE_TEST_SUPERSEDE, "after a newer version at call 1, pgstage_payload"},
        {"\"when cancelled\"", false, PGSTAGE_TEST_DEADLINE, "after a time-out at call 1, pgstage_payload"},
        {"\"without memory\"", false, PGSTAGE_TEST_NO_MEMORY, "after no memory at call 1, pgstage_payload"},
    };
    LOSE_ON_PURPOSE();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pgstage_test_destroy(test);
        open_test(&pgstage_handler_leaky, cases[i].payload);
        size_t leaked = pgstage_test_leaked_bytes(test);
        cr_assert_eq(leaked >= 40, cases[i].always, "%s: %zu", cases[i].payload, leaked);
        cr_assert_eq(pgstage_test_each_call(test, cases[i].event, NULL, NULL), PGSTAGE_TEST_LEAK, "%s", cases[i].payload);
        const char *problem = pgstage_test_problem(test);
        cr_assert_eq(strncmp(problem, "the handler leaks ", 18), 0, "%s", problem);
        cr_assert_not_null(strstr(problem, cases[i].after), "%s", problem);
    }
}

Test(kit_leaks, what_a_check_gives_back_hides_nothing, .fini = finish, .timeout = 60) {
    void *hoard[10];
    for (size_t i = 0; i < sizeof hoard / sizeof hoard[0]; i++) {
        hoard[i] = malloc(1000);
    }
    LOSE_ON_PURPOSE();
    open_test(&pgstage_handler_leaky, "\"malloc\"");
    int checked = pgstage_test_each_call(test, PGSTAGE_TEST_CANCEL, give_something_back, hoard);
    cr_assert_eq(checked, PGSTAGE_TEST_LEAK);
    for (size_t i = 0; i < sizeof hoard / sizeof hoard[0]; i++) {
        free(hoard[i]);
    }
}
