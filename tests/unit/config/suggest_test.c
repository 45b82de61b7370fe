/* suggest_test.c - distances are symmetric for small letters, and hints are what a person meant. */
#include "config/suggest.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(suggest, .timeout = 10);

Test(suggest, distance) {
    static const struct {
        const char *left, *right;
        int distance;
    } rows[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"abc", "abc", 0},
        {"abc", "abd", 1},
        {"abc", "acb", 1},
        {"abc", "ab", 1},
        {"abc", "xabc", 1},
        {"tiemout", "timeout", 1},
        {"sorce", "source", 1},
        {"kitten", "sitting", 3},
        {"ca", "abc", 3},
        {"abcdef", "badcfe", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_eq(suggest_distance(rows[i].left, rows[i].right), rows[i].distance, "%s %s",
                     rows[i].left, rows[i].right);
        cr_expect_eq(suggest_distance(rows[i].right, rows[i].left), rows[i].distance, "%s %s",
                     rows[i].right, rows[i].left);
    }
    cr_expect_eq(suggest_distance("KEY", "key"), 0);
}

Test(suggest, distance_of_long_words_is_bounded) {
    char word[64 + 1];
    memset(word, 'a', sizeof word);
    word[64] = '\0';
    cr_expect_eq(suggest_distance(word, "a"), 64);
    cr_expect_eq(suggest_distance("a", word), 64);
    word[63] = '\0';
    cr_expect_eq(suggest_distance(word, "a"), 62);
    cr_expect_eq(suggest_distance(word, word), 0);
}

Test(suggest, hints) {
    static const struct {
        enum config_level level;
        const char *word, *hint;
    } rows[] = {
        {LEVEL_STAGE, "retires", "did you mean 'requires'?"},
        {LEVEL_STAGE, "retries", "did you mean 'retry'?"},
        {LEVEL_STAGE, "Timeout", "did you mean 'timeout'?"},
        {LEVEL_STAGE, "time_out", "did you mean 'timeout'?"},
        {LEVEL_STAGE, "num_workers", "did you mean 'workers'?"},
        {LEVEL_STAGE, "workrs", "did you mean 'workers'?"},
        {LEVEL_STAGE, "aftercommit", "did you mean 'after_commit'?"},
        {LEVEL_STAGE, "SQL", "did you mean 'sql'?"},
        {LEVEL_STAGE, "max_atempts", "'attempts' belongs in 'retry'"},
        {LEVEL_STAGE, "memory", "'memory' belongs in 'limits'"},
        {LEVEL_STAGE, "memory_limit", "did you mean 'limits'?"},
        {LEVEL_STAGE, "recursive", "'recursive' belongs in 'files' of 'source'"},
        {LEVEL_RETRY, "max_attempts", "did you mean 'attempts'?"},
        {LEVEL_RETRY, "back-off", "did you mean 'backoff'?"},
        {LEVEL_LIMITS, "mem", "did you mean 'memory'?"},
        {LEVEL_LIMITS, "descriptors",
         "the keys here are 'memory', 'cpu', 'file_size', 'open_files', 'nice'"},
        {LEVEL_PIPELINE, "stage", "did you mean 'stages'?"},
        {LEVEL_PIPELINE, "default", "did you mean 'defaults'?"},
        {LEVEL_PIPELINE, "handler", "'handler' belongs in a stage"},
        {LEVEL_PIPELINE, "grace", "'grace' belongs in a stage or in 'defaults'"},
        {LEVEL_SOURCE, "file", "did you mean 'files'?"},
        {LEVEL_SOURCE, "defaults", "'defaults' belongs at the top level of the file"},
        {LEVEL_SOURCE, "files_", "did you mean 'files'?"},
        {LEVEL_SOURCE, "", "the keys here are 'files'"},
        {LEVEL_SOURCE, "___", "the keys here are 'files'"},
    };
    struct arena arena = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *hint = suggest_hint(&arena, rows[i].level, rows[i].word);
        cr_expect_str_eq(hint, rows[i].hint, "%s gives %s", rows[i].word, hint);
    }
    arena_finish(&arena);
}

/* A key that is elsewhere, by its full name, has a place to be named for. */
Test(suggest, every_key_has_a_place) {
    struct arena arena = {0};
    for (int i = 0; i < config_key_count; i++) {
        enum config_level level =
            (config_keys[i].levels & LEVEL_SOURCE) != 0 ? LEVEL_RETRY : LEVEL_SOURCE;
        const char *hint = suggest_hint(&arena, level, config_keys[i].name);
        cr_expect(strstr(hint, " belongs ") != NULL && strstr(hint, "elsewhere") == NULL, "%s",
                  hint);
    }
    arena_finish(&arena);
}
