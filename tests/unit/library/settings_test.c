/* Settings of a stage. */
#include "settings.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(library_settings, .timeout = 10);

static char message[200];

static bool read_settings(const char *config, int64_t *size, int64_t *count) {
    const struct setting table[] = {
        {"max", true, 1, INT64_C(1) << 30, size}, {"count", false, 0, 10, count}, {0}};
    json_t *value = json_loads(config, 0, NULL);
    cr_assert_not_null(value);
    bool done = settings_read(value, table, message, sizeof message);
    json_decref(value);
    return done;
}

Test(library_settings, reads_what_is_there_and_keeps_defaults) {
    int64_t size = 5, count = 6;
    cr_assert(read_settings("{}", &size, &count));
    cr_assert(size == 5 && count == 6);
    cr_assert(read_settings("{\"max\": \"200MB\", \"count\": 0}", &size, &count));
    cr_assert(size == 200 << 20 && count == 0);
    cr_assert(read_settings("{\"max\": 77}", &size, &count));
    cr_assert(size == 77);
}

Test(library_settings, says_what_is_wrong) {
    int64_t size = 5, count = 6;
    cr_assert_not(read_settings("{\"mox\": 1}", &size, &count));
    cr_assert_str_eq(message, "with: there is no setting 'mox'; there is max and count");
    cr_assert_not(read_settings("{\"max\": \"lots\"}", &size, &count));
    cr_assert_str_eq(message, "with: max must be a size, like 200MB");
    cr_assert_not(read_settings("{\"count\": \"1\"}", &size, &count));
    cr_assert_str_eq(message, "with: count must be a whole number");
    cr_assert_not(read_settings("{\"count\": 1.5}", &size, &count));
    cr_assert_not(read_settings("{\"count\": true}", &size, &count));
    cr_assert_not(read_settings("{\"count\": 11}", &size, &count));
    cr_assert_str_eq(message, "with: count must be between 0 and 10");
    cr_assert_not(read_settings("{\"max\": \"2GB\"}", &size, &count));
}

Test(library_settings, parses_sizes) {
    static const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } cases[] = {{"1", 1},
                 {"1B", 1},
                 {"2kB", 2048},
                 {"3MB", 3 << 20},
                 {"1GB", 1 << 30},
                 {"0", 0},
                 {"", -1},
                 {"MB", -1},
                 {"-1", -1},
                 {"1 MB", -1},
                 {"1KB", -1},
                 {"1.5MB", -1},
                 {"9223372036854775807", -1},
                 {"99999999999GB", -1},
                 {"1MBx", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t bytes = -1;
        bool done = settings_parse_size(cases[i].text, &bytes);
        cr_expect_eq(done, cases[i].bytes >= 0, "%s", cases[i].text);
        cr_expect_eq(bytes, cases[i].bytes, "%s", cases[i].text);
    }
}
