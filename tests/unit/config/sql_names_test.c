/* sql_names_test.c - :names in SQL, and all that only looks like one. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/pipeline.h"

TestSuite(sql_bind_names, .timeout = 10);

struct binding {
    const char *text, *bound;
    const char *params; /* first letters, in order; "" for none; NULL when `bound` is the error */
};

static const struct binding bindings[] = {
    /* Names and their casts. */
    {"select :key", "select $1::text", "k"},
    {"select :payload", "select $1::jsonb", "p"},
    {"select :input", "select $1::jsonb", "i"},
    {"select :version", "select $1::bigint", "v"},
    {"select :updated_at", "select $1::timestamptz", "u"},
    {":key", "$1::text", "k"},
    {"f(:key,:key,:version,:key)", "f($1::text,$1::text,$2::bigint,$1::text)", "kv"},
    {":updated_at:version:input:payload:key", "$1::timestamptz$2::bigint$3::jsonb$4::jsonb$5::text",
     "uvipk"},
    {"(:key)||:key", "($1::text)||$1::text", "k"},
    {"a=:key", "a=$1::text", "k"},
    {"1:key", "1$1::text", "k"},
    /* A cast behind the name, JSON operators, subscripts. */
    {"select :key::varchar", "select $1::text::varchar", "k"},
    {"select :input->>'a'", "select $1::jsonb->>'a'", "i"},
    {"select :input['a']", "select ($1::jsonb)['a']", "i"},
    {"select :input \n ['a']", "select ($1::jsonb) \n ['a']", "i"},
    /* Colons that begin no name. */
    {"select a::text, b :: int", "select a::text, b :: int", ""},
    {"select a::key", "select a::key", ""},
    {"select f(x := :key)", "select f(x := $1::text)", "k"},
    {"select f(x :=:key)", "select f(x :=$1::text)", "k"},
    {"select a[1:2], a[:2], a[1:]", "select a[1:2], a[:2], a[1:]", ""},
    {"select a[b : c]", "select a[b : c]", ""},
    {"select : key", "select : key", ""},
    {"select :", "select :", ""},
    /* Texts. */
    {"select ':key'", "select ':key'", ""},
    {"select 'it''s :key', :key", "select 'it''s :key', $1::text", "k"},
    {"select '\\', :key", "select '\\', $1::text", "k"},
    {"select E'\\':key', :key", "select E'\\':key', $1::text", "k"},
    {"select e'a\\\\', :key", "select e'a\\\\', $1::text", "k"},
    {"select e'a'':key'", "select e'a'':key'", ""},
    {"select E'a'\n'\\':key', :key", "select E'a'\n'\\':key', $1::text", "k"},
    {"select E'a' -- x\n  '\\':key'", "select E'a' -- x\n  '\\':key'", ""},
    {"select E'a' '\\', :key", "select E'a' '\\', $1::text", "k"},
    {"select 'a'\n'\\', :key", "select 'a'\n'\\', $1::text", "k"},
    {"select N':key', B':key', x':key', U&':key'", "select N':key', B':key', x':key', U&':key'",
     ""},
    {"select type'\\', :key", "select type'\\', $1::text", "k"},
    /* Quoted names. */
    {"select \":key\", \"a\"\":key\"", "select \":key\", \"a\"\":key\"", ""},
    {"select \"'\", :key", "select \"'\", $1::text", "k"},
    {"select U&\":key\", \"e'\"", "select U&\":key\", \"e'\"", ""},
    /* Dollar quotes. */
    {"select $$ :key ' $$, :key", "select $$ :key ' $$, $1::text", "k"},
    {"select $x$ :key $$ $y$ $x$, :key", "select $x$ :key $$ $y$ $x$, $1::text", "k"},
    {"select $x1$ $x$ $x1$, :key", "select $x1$ $x$ $x1$, $1::text", "k"},
    {"select $\xC3\xBC$ :key $\xC3\xBC$", "select $\xC3\xBC$ :key $\xC3\xBC$", ""},
    {"select a$x$, :key, b$x$", "select a$x$, $1::text, b$x$", "k"},
    {"select a$1", "select a$1", ""},
    {"select $$$$, $$ $ $$", "select $$$$, $$ $ $$", ""},
    {"select $ , $x", "select $ , $x", ""},
    /* Comments. */
    {"select 1 -- :key '\n, :key", "select 1 -- :key '\n, $1::text", "k"},
    {"select 1 -- :key\r, :key", "select 1 -- :key\r, $1::text", "k"},
    {"select 1 -- :key", "select 1 -- :key", ""},
    {"select /* :key /* ' */ :key */ :key", "select /* :key /* ' */ :key */ $1::text", "k"},
    {"select /**/:key", "select /**/$1::text", "k"},
    {"select /*/ :key */ 1", "select /*/ :key */ 1", ""},
    {"select 1 - - :version", "select 1 - - $1::bigint", "v"},
    {"select 1 / :version * 2", "select 1 / $1::bigint * 2", "v"},
    /* One statement. */
    {"select 1;", "select 1;", ""},
    {"select 1 ; -- done\n ; /* x */ ", "select 1 ; -- done\n ; /* x */ ", ""},
    {"; select 1", "; select 1", ""},
    {"select ';', \";\", $$;$$ /* ; */", "select ';', \";\", $$;$$ /* ; */", ""},
    /* Mistakes: what `bound` says. */
    {"select :kye", "line 1, column 8: there is no value ':kye' (did you mean ':key'?)", NULL},
    {"select\n  :key,\n  :Key", "line 3, column 3: there is no value ':Key' (did you mean ':key'?)",
     NULL},
    {"select '\xC3\xBC', :keys",
     "line 1, column 13: there is no value ':keys' (did you mean ':key'?)", NULL},
    {"select :updated",
     "line 1, column 8: there is no value ':updated' (the names are :key, "
     ":payload, :input, :inputs, :version and :updated_at; a slice wants a blank "
     "behind its ':')",
     NULL},
    {"select :key1", "line 1, column 8: there is no value ':key1' (did you mean ':key'?)", NULL},
    {"select $1",
     "line 1, column 8: numbered parameters are not available here (write :key, "
     ":payload, :input, :inputs, :version or :updated_at)",
     NULL},
    {"select :'key'",
     "line 1, column 8: a name behind ':' must not be quoted (write :key, "
     "without quotes)",
     NULL},
    {"select 1; select 2",
     "line 1, column 11: a second statement begins here (write a list of "
     "texts, one statement each)",
     NULL},
    {"select 1;;:key",
     "line 1, column 11: a second statement begins here (write a list of "
     "texts, one statement each)",
     NULL},
    {"", "line 1, column 1: there is no statement in this text", NULL},
    {" -- x\n;", "line 1, column 1: there is no statement in this text", NULL},
    {"select 'a", "line 1, column 8: a text is opened here and not closed", NULL},
    {"select 'a''", "line 1, column 8: a text is opened here and not closed", NULL},
    {"select E'a\\'", "line 1, column 8: a text is opened here and not closed", NULL},
    {"select E'a\\", "line 1, column 8: a text is opened here and not closed", NULL},
    {"select E'a'\n'b", "line 1, column 8: a text is opened here and not closed", NULL},
    {"select \"a", "line 1, column 8: a quoted name is opened here and not closed", NULL},
    {"select $x$ $y$", "line 1, column 8: a dollar-quoted text is opened here and not closed",
     NULL},
    {"select $$", "line 1, column 8: a dollar-quoted text is opened here and not closed", NULL},
    {"select /* /* */", "line 1, column 8: a comment is opened here and not closed", NULL},
    {"select /*", "line 1, column 8: a comment is opened here and not closed", NULL},
};

static void expect_bound(const struct binding *binding, const struct stage_statement *statement) {
    static const char letters[] = "kpivu";
    char params[8] = "";
    for (int i = 0; i < statement->param_count; i++) {
        params[i] = letters[statement->params[i]];
    }
    cr_expect_str_eq(statement->text, binding->bound, "%s gives %s", binding->text,
                     statement->text);
    cr_expect_str_eq(params, binding->params, "%s takes %s", binding->text, params);
}

Test(sql_bind_names, all_rows) {
    for (size_t i = 0; i < sizeof bindings / sizeof bindings[0]; i++) {
        const struct binding *binding = &bindings[i];
        struct arena arena = {0};
        struct stage_statement statement;
        struct error err = ERROR_NONE;
        enum status status = sql_bind_names(&arena, binding->text, &statement, &err);
        if (binding->params != NULL) {
            cr_assert_eq(status, STATUS_OK, "%s: %s", binding->text, err.text);
            expect_bound(binding, &statement);
        } else {
            cr_expect_eq(status, STATUS_INVALID, "%s", binding->text);
            cr_expect_str_eq(err.text, binding->bound, "%s gives %s", binding->text, err.text);
            cr_expect_gt(err.line, 0);
            cr_expect_gt(err.column, 0);
        }
        arena_finish(&arena);
    }
}

/* Each prefix of each text ends in the middle of something; none may be read beyond its end. */
Test(sql_bind_names, every_prefix_of_every_row_ends) {
    for (size_t i = 0; i < sizeof bindings / sizeof bindings[0]; i++) {
        size_t length = strlen(bindings[i].text);
        for (size_t end = 0; end <= length; end++) {
            struct arena arena = {0};
            struct stage_statement statement;
            char *prefix = mem_copy_bytes(bindings[i].text, end);
            enum status status = sql_bind_names(&arena, prefix, &statement, NULL);
            cr_expect(status == STATUS_OK || status == STATUS_INVALID);
            free(prefix);
            arena_finish(&arena);
        }
    }
}

/* Quadratic time would show: each of these begins something at each byte. */
Test(sql_bind_names, long_texts_take_linear_time) {
    static const char *const parts[] = {"$a", "/*", "'' ", "$$", ":key,", "E'", "-- \n", "\""};
    enum { LENGTH = 256 * 1024 };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct buf text;
        buf_init(&text, SIZE_MAX);
        while (text.length < LENGTH) {
            buf_append_string(&text, parts[i]);
        }
        struct arena arena = {0};
        struct stage_statement statement;
        enum status status = sql_bind_names(&arena, text.data, &statement, NULL);
        cr_expect(status == STATUS_OK || status == STATUS_INVALID);
        arena_finish(&arena);
        buf_finish(&text);
    }
}

Test(sql_bind_names, first_error_wins) {
    struct arena arena = {0};
    struct stage_statement statement;
    struct error err = ERROR_NONE;
    (void)error_set(&err, STATUS_LIMIT, "before");
    cr_expect_eq(sql_bind_names(&arena, "select :x", &statement, &err), STATUS_INVALID);
    cr_expect_str_eq(err.text, "before");
    cr_expect_eq(err.line, 0);
    arena_finish(&arena);
}
