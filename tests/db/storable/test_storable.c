/* What the SDK takes as an output, PostgreSQL's jsonb takes, too: the same texts and random changes
 * of them to both. (The other way round there is one difference that is meant: numbers near the
 * limits of `numeric` are refused by their digits and exponent, also when their value would fit.)
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/random.h"
#include "db/sync.h"
#include "host.h"
#include "support/pg.h"

TestSuite(db_storable, .timeout = 300);

static struct db_sync *db;
static pgstage_task *task;

static void never_log(void *context, const char *text, size_t length, const char *fields, size_t fields_length) {
    (void)context;
    (void)text;
    (void)length;
    (void)fields;
    (void)fields_length;
}

static void open_both(void) {
    struct error err = ERROR_NONE;
    task = pgstage_host_task_create(&(struct pgstage_host_run){.key = "doc"},
                                    &(struct pgstage_host_ops){.log = never_log});
    cr_assert_eq(sync_open(pg_url(), "test", &db, &err), STATUS_OK, "%s", err.text);
    const char *function =
        "create function pg_temp.takes(json bytea) returns boolean language plpgsql as $$ begin "
        "return convert_from(json, 'UTF8')::jsonb is not null; exception when others then return "
        "false; end $$";
    cr_assert_eq(sync_script(db, function, &err), STATUS_OK, "%s", err.text);
}

static void close_both(void) {
    sync_close(db);
    pgstage_host_task_destroy(task);
}

static bool postgres_takes(const char *text, size_t length) {
    struct db_param param = {.data = text, .length = length, .binary = true};
    struct db_result *result;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_run(db, "takes", "select pg_temp.takes($1)", 1, &param, &result, &err),
                 STATUS_OK, "%s", err.text);
    bool takes = db_bool(result, 0, 0);
    sync_result_free(result);
    return takes;
}

static void compare(const char *text, size_t length) {
    bool ours = pgstage_set_output(task, text, length) == 0, theirs = postgres_takes(text, length);
    if (ours) {
        cr_assert(theirs, "only the SDK takes: %.*s", (int)length, text);
    } else if (theirs) {
        cr_assert_not_null(strstr(pgstage_host_message(task).data, "beyond the range of"),
                           "only PostgreSQL takes: %.*s (%s)", (int)length, text,
                           pgstage_host_message(task).data);
    }
}

static const char *const seeds[] = {
    "{\"a\": [1, -2.50, 3e4, 0.0E-7], \"b\": {\"c\": null}, \"d\": [true, false]}",
    "[\"\\ud83d\\ude00\", \"\\u00e4\\n\\\\\\\"\", \"\xE2\x82\xAC\xC3\xA4\xF0\x9F\x98\x80\"]",
    "\"\\uD800\\uDC00\\udbff\\udfff\\u0001\\u001f\"",
    "-123456789012345678901234567890.000001",
    "1e131071",
    "1e-16383",
    "0.00001e131076",
    "{\"\": {\"\": [{}, [], [[]]]}, \"\": 1}",
    " [ 1 , 2 ] \t\r\n",
};

Test(db_storable, agrees_about_known_texts) {
    open_both();
    static const char *const texts[] = {
        "",
        " ",
        "1e131072",
        "1e-16384",
        "1.5e-16383",
        "12e131071",
        "01",
        "1.",
        ".1",
        "+1",
        "-",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"\\udc00\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\x01\"",
        "\"\x7F\"",
        "\"\xC0\x80\"",
        "\"\xED\xA0\x80\"",
        "\"\xF4\x90\x80\x80\"",
        "nul",
        "NULL",
        "[1,]",
        "{\"a\":1,}",
        "{1:2}",
        "[1 2]",
        "{}{}",
        "\xEF\xBB\xBF{}",
        "\f1",
        "\v1",
        "\"\t\"",
    };
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        compare(seeds[i], strlen(seeds[i]));
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        compare(texts[i], strlen(texts[i]));
    }
    compare("\"\0\"", 3);
    compare("1\0", 2);
    close_both();
}

Test(db_storable, the_deepest_output_is_taken) {
    open_both();
    struct buf text;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < 1024; i++) {
        buf_append_string(&text, "[{\"k\":");
    }
    buf_append_string(&text, "1");
    for (int i = 0; i < 1024; i++) {
        buf_append_string(&text, "}]");
    }
    cr_assert_eq(pgstage_set_output(task, text.data, text.length), 0);
    cr_assert(postgres_takes(text.data, text.length));
    buf_finish(&text);
    close_both();
}

/* One change: a byte replaced, put in or taken out, a part doubled, or the rest cut off. */
static void change(struct buf *text, const struct random_ops *random) {
    static const char alphabet[] =
        "{}[]:,\"\\/bfnrtu0123456789abcdefDC.-+eE \n\t\x01\x80\xC3\xED\xF4";
    struct buf before;
    buf_init(&before, 4096);
    buf_append(&before, text->data, text->length);
    size_t at = random_below(random, before.length + 1), left = before.length - at;
    size_t part = random_below(random, left < 8 ? left + 1 : 8);
    uint64_t kind = random_below(random, 5);
    buf_clear(text);
    buf_append(text, before.data, at);
    if (kind <= 1) {
        buf_append_char(text, alphabet[random_below(random, sizeof alphabet)]);
    } else if (kind == 2) {
        buf_append(text, before.data + at, part);
        buf_append(text, before.data + at, part);
    }
    size_t skipped = kind == 0 ? (left > 0) : kind == 1 ? 0 : part;
    if (kind < 4) {
        buf_append(text, before.data + at + skipped, left - skipped);
    }
    buf_finish(&before);
}

Test(db_storable, agrees_about_random_changes) {
    open_both();
    struct random_seeded seeded;
    struct random_ops random = random_from_seed(&seeded, 4711);
    struct buf text;
    buf_init(&text, 4096);
    for (int turn = 0; turn < 8000; turn++) {
        const char *seed = seeds[(size_t)turn % (sizeof seeds / sizeof seeds[0])];
        buf_clear(&text);
        buf_append_string(&text, seed);
        for (uint64_t changes = 1 + random_below(&random, 3); changes > 0; changes--) {
            change(&text, &random);
        }
        compare(text.data, text.length);
    }
    buf_finish(&text);
    close_both();
}
