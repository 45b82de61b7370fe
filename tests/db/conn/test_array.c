/* Array literals, as written here and as PostgreSQL reads them. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "db/array.h"
#include "db/sync.h"
#include "support/pg.h"

TestSuite(db_array, .timeout = 60);

Test(db_array, writes_numbers_and_null) {
    struct buf buf;
    buf_init(&buf, 1000);
    array_begin(&buf);
    array_add_int(&buf, 1);
    array_add_null(&buf);
    array_add_int(&buf, INT64_MIN);
    array_add_bool(&buf, true);
    array_add_bool(&buf, false);
    array_end(&buf);
    cr_assert_str_eq(buf.data, "{1,NULL,-9223372036854775808,t,f}");
    array_begin(&buf);
    array_end(&buf);
    cr_assert_str_eq(buf.data, "{}");
    buf_finish(&buf);
}

static const char *const texts[] = {
    "",        "NULL", "null", "a,b",  "{",  "}",     "{}",     "\"",   "\\",
    "a\"b\\c", " x ",  "\t",   "a\nb", "''", "\\\"}", "größer", "\x7f", "{\"a\": [1, 2]}",
};
enum { TEXT_COUNT = sizeof texts / sizeof texts[0] };

Test(db_array, postgres_reads_each_text_as_it_was) {
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(sync_open(pg_url(), "test", &db, &err), STATUS_OK, "%s", err.text);
    struct buf buf;
    buf_init(&buf, 10000);
    array_begin(&buf);
    for (int i = 0; i < TEXT_COUNT; i++) {
        array_add_text(&buf, texts[i], strlen(texts[i]));
    }
    array_add_text(&buf, NULL, 0);
    array_end(&buf);
    struct db_result *result = NULL;
    cr_assert_eq(sync_run(db, NULL,
                          "select t from unnest($1::text[]) with ordinality u(t, n) order by n", 1,
                          &DB_TEXT(buf.data), &result, &err),
                 STATUS_OK, "%s", err.text);
    cr_assert_eq(db_rows(result), TEXT_COUNT + 1);
    for (int i = 0; i < TEXT_COUNT; i++) {
        cr_assert_not(db_is_null(result, i, 0));
        cr_assert_str_eq(db_value(result, i, 0), texts[i]);
    }
    cr_assert(db_is_null(result, TEXT_COUNT, 0));
    sync_result_free(result);
    buf_finish(&buf);
    sync_close(db);
}

struct read_case {
    const char *literal;
    int count;
    int64_t first, last;
};

static const struct read_case reads[] = {
    {"{}", 0, 0, 0},        {"{7}", 1, 7, 7},
    {"{1,2,3}", 3, 1, 3},   {"{-9223372036854775808,9223372036854775807}", 2, INT64_MIN, INT64_MAX},
    {"", -1, 0, 0},         {"{", -1, 0, 0},
    {"}", -1, 0, 0},        {"{1,}", -1, 0, 0},
    {"{,1}", -1, 0, 0},     {"{,}", -1, 0, 0},
    {"{1,,2}", -1, 0, 0},   {"{1}{2}", -1, 0, 0},
    {"{1}}", -1, 0, 0},     {"{NULL}", -1, 0, 0},
    {"{1,NULL}", -1, 0, 0}, {"{ 1}", -1, 0, 0},
    {"{+1}", -1, 0, 0},     {"{-}", -1, 0, 0},
    {"{1.5}", -1, 0, 0},    {"{9223372036854775808}", -1, 0, 0},
    {"{{1}}", -1, 0, 0},    {"1,2", -1, 0, 0},
};

Test(db_array, reads_integers_and_nothing_else) {
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        int64_t *values = NULL;
        int count = array_read_ints(reads[i].literal, &values);
        cr_assert_eq(count, reads[i].count, "%s", reads[i].literal);
        if (count > 0) {
            cr_assert_eq(values[0], reads[i].first, "%s", reads[i].literal);
            cr_assert_eq(values[count - 1], reads[i].last, "%s", reads[i].literal);
        }
        free(values);
    }
}
