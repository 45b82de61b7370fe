/* handler_test.c - the handler in a unit test: no database, no daemon. Any test framework would do as well. */
#include <pgstage/test.h>
#include <stdio.h>
#include <string.h>

extern const struct pgstage_handler pgstage_handler_words;

static int failures;

#define CHECK(CONDITION)                                                                    \
    do {                                                                                    \
        if (!(CONDITION)) {                                                                 \
            fprintf(stderr, "%s:%d: this does not hold: %s\n", __FILE__, __LINE__, #CONDITION); \
            failures++;                                                                     \
        }                                                                                   \
    } while (0)

static void counts_words(void) {
    pgstage_test *test = pgstage_test_create(&pgstage_handler_words);
    pgstage_test_set_with(test, "{\"min_length\": 3}");
    pgstage_test_set_payload(test, "{\"text\": \" a pipeline of two\\nstages \"}");
    CHECK(pgstage_test_run(test) == PGSTAGE_OK);
    CHECK(strcmp(pgstage_test_output(test, NULL), "{\"words\":3,\"longest\":\"pipeline\"}") == 0);
    pgstage_test_destroy(test);
}

static void says_what_is_wrong(void) {
    pgstage_test *test = pgstage_test_create(&pgstage_handler_words);
    pgstage_test_set_payload(test, "{\"title\": \"no text\"}");
    CHECK(pgstage_test_run(test) == PGSTAGE_FAIL);
    CHECK(strcmp(pgstage_test_message(test), "the payload has no \"text\"") == 0);
    pgstage_test_stop(test);
    pgstage_test_set_with(test, "{\"min_length\": \"three\"}");
    CHECK(pgstage_test_start(test) == PGSTAGE_FAIL);
    CHECK(strcmp(pgstage_test_message(test), "with: min_length is to be a whole number from 1 on") == 0);
    pgstage_test_destroy(test);
}

/* Whatever happens, and whenever: a whole result, or a reason. */
static void check_whole(pgstage_test *test, unsigned event, int call, void *context) {
    (void)event;
    (void)call;
    (void)context;
    if (pgstage_test_result(test) == PGSTAGE_OK) {
        CHECK(strcmp(pgstage_test_output(test, NULL), "{\"words\":2,\"longest\":\"three\"}") == 0);
    } else {
        CHECK(pgstage_test_message(test)[0] != '\0');
    }
}

/* A cancel, the time-out, a newer version and no memory at each call of the SDK; a leak would be found as well. */
static void stands_each_event_at_each_call(void) {
    pgstage_test *test = pgstage_test_create(&pgstage_handler_words);
    pgstage_test_set_payload(test, "{\"text\": \"one three\"}");
    int checked = pgstage_test_each_call(test, PGSTAGE_TEST_ALL_EVENTS, check_whole, NULL);
    CHECK(checked > 0);
    fputs(pgstage_test_problem(test), stderr);
    pgstage_test_destroy(test);
}

int main(void) {
    counts_words();
    says_what_is_wrong();
    stands_each_event_at_each_call();
    return failures == 0 ? 0 : 1;
}
