/* Patterns: one part, and paths. */
#include "source/glob.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"

TestSuite(glob, .timeout = 10);

struct part_case {
    char part[32], name[32];
    bool matches;
};

static const struct part_case part_cases[] = {
    {"a", "a", true},
    {"a", "b", false},
    {"a", "ab", false},
    {"", "", true},
    {"*", "anything", true},
    {"*.pdf", "a.pdf", true},
    {"*.pdf", ".pdf", false}, /* hidden */
    {"*.pdf", "a.PDF", false},
    {"*.pdf", "a.pdf.gz", false},
    {"a*b*c", "axxbyyc", true},
    {"a*b*c", "axxbyy", false},
    {"*ab", "aab", true},
    {"a**b", "ab", true},
    {"?", "x", true},
    {"?", "", false},
    {"?", "\xC3\xA4", true}, /* one character of two bytes */
    {"?", "\xFF", true},     /* a stray byte is one character */
    {"??", "\xC3\xA4", false},
    {"\xFF*", "\xFF\xFE", true},
    {"[a-c]x", "bx", true},
    {"[a-c]x", "dx", false},
    {"[!a-c]x", "dx", true},
    {"[^a-c]x", "ax", false},
    {"[]]", "]", true},
    {"[!]]", "]", false},
    {"[!]]", "a", true},
    {"[a-]", "-", true},
    {"[\\]]", "]", true},
    {"[\xC3\xA0-\xC3\xBC]", "\xC3\xA4", true},
    {"[a", "[a", true}, /* no end: a plain bracket */
    {"[", "[", true},
    {"[!", "[!", true},
    {"\\*", "*", true},
    {"\\*", "a", false},
    {"a\\", "a\\", true},
    {"*\\?", "a?", true},
    {".*", ".x", true},
    {".*", "x", false},
    {"\\.x", ".x", true},
    {"?x", ".x", false},
    {"[.]x", ".x", false},
    {"*\n*", "a\nb", true},
    {"it's \"*", "it's \"x\"", true},
};

Test(glob, matches_one_part) {
    for (size_t i = 0; i < sizeof part_cases / sizeof part_cases[0]; i++) {
        const struct part_case *c = &part_cases[i];
        cr_expect_eq(glob_part_matches(c->part, c->name), c->matches, "%s against %s", c->part,
                     c->name);
    }
}

struct path_case {
    char pattern[32], path[48];
    bool matches;
};

static const struct path_case path_cases[] = {
    {"*.txt", "a.txt", true},
    {"*.txt", "x/y/a.txt", true},
    {"x/*.txt", "x/a.txt", true},
    {"x/*.txt", "y/a.txt", false},
    {"x/*.txt", "x/y/a.txt", false},
    {"/*.txt", "a.txt", true}, /* only in the root */
    {"/*.txt", "x/a.txt", false},
    {"./x/a", "x/a", true},
    {"x//./a", "x/a", true},
    {"**/a", "a", true},
    {"**/a", "x/y/a", true},
    {"**", "x/y/a", true},
    {"x/**", "x/y/a", true},
    {"x/**", "x/a", true},
    {"x/**", "x", false},
    {"x/**/a", "x/a", true},
    {"x/**/a", "x/y/z/a", true},
    {"x/**/y/**/a", "x/1/y/2/3/a", true},
    {"x/**/y/**/a", "x/1/2/3/a", false},
    {"**/**/a", "a", true},
    {"**/x/*/a", "x/x/b/a", true},
    {"*/a", "x/a", true},
    {"*/a", ".x/a", false},
    {"**/a", ".x/a", false},
    {"a", ".x/a", false},
    {".x/a", ".x/a", true},
    {"**/.x/a", "y/.x/a", true},
    {".*/a", ".x/a", true},
    {".*", "x/.a", true},
    {".*", ".x/.a", false},
    {"a/", "a", true},
};

static glob_states walk(const struct glob *glob, const char *path) {
    glob_states states = glob_start(glob);
    char *copy = mem_copy_string(path);
    char *rest = copy;
    while (rest != NULL) {
        states = glob_step(glob, states, strsep(&rest, "/"));
    }
    free(copy);
    return states;
}

Test(glob, matches_paths) {
    for (size_t i = 0; i < sizeof path_cases / sizeof path_cases[0]; i++) {
        const struct path_case *c = &path_cases[i];
        struct glob glob;
        struct error err = ERROR_NONE;
        cr_assert_eq(glob_parse(&glob, c->pattern, &err), STATUS_OK, "%s", err.text);
        cr_expect_eq(glob_accepts(&glob, walk(&glob, c->path)), c->matches, "%s against %s",
                     c->pattern, c->path);
        glob_finish(&glob);
    }
}

Test(glob, knows_where_nothing_can_match_below) {
    struct glob glob;
    cr_assert_eq(glob_parse(&glob, "x/*/a", NULL), STATUS_OK);
    cr_assert(glob_continues(&glob, walk(&glob, "x")));
    cr_assert(glob_continues(&glob, walk(&glob, "x/y")));
    cr_assert_not(glob_continues(&glob, walk(&glob, "x/y/a")));
    cr_assert_not(glob_continues(&glob, walk(&glob, "y")));
    glob_finish(&glob);
}

Test(glob, tells_names_from_bare_wildcards) {
    static const struct {
        const char *pattern;
        bool names;
    } cases[] = {{"*", false},  {"*.*", false},  {"**", false},  {"x/**", false}, {"?*", false},
                 {".*", false}, {"*.pdf", true}, {"x/*", false}, {"*/x", true},   {"[ab]*", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct glob glob;
        cr_assert_eq(glob_parse(&glob, cases[i].pattern, NULL), STATUS_OK);
        cr_expect_eq(glob.names, cases[i].names, "%s", cases[i].pattern);
        glob_finish(&glob);
    }
}

Test(glob, refuses_what_cannot_match) {
    struct glob glob;
    static const char *const patterns[] = {"", "/", "./", ".", "../x", "x/../y"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct error err = ERROR_NONE;
        cr_expect_eq(glob_parse(&glob, patterns[i], &err), STATUS_INVALID, "%s", patterns[i]);
        cr_expect(err.text[0] != '\0');
        glob_finish(&glob); /* harmless */
    }
}

/* Fills `out` with `count` times `what`. */
static void repeat(char *out, const char *what, int count) {
    for (; count > 0; count--) {
        memcpy(out, what, strlen(what) + 1);
        out += strlen(what);
    }
}

Test(glob, takes_as_many_parts_as_it_says_and_no_more) {
    char pattern[256];
    struct glob glob;
    repeat(pattern, "/a", GLOB_PARTS_MAX);
    cr_assert_eq(glob_parse(&glob, pattern, NULL), STATUS_OK);
    cr_assert(glob_accepts(&glob, walk(&glob, pattern + 1)));
    glob_finish(&glob);
    repeat(pattern, "/a", GLOB_PARTS_MAX + 1);
    cr_assert_eq(glob_parse(&glob, pattern, NULL), STATUS_LIMIT);
}

Test(glob, many_stars_take_no_exponential_time) {
    char part[101], name[251];
    repeat(part, "*a", 50);
    repeat(name, "a", 250);
    name[249] = 'b';
    clock_t start = clock();
    cr_assert_not(glob_part_matches(part, name));
    cr_assert_lt(clock() - start, CLOCKS_PER_SEC / 10);
}
