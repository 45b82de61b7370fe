/* sql_names.c - follows PostgreSQL's lexer as far as it must to know what is code: quoted text with
 * its continuations, quoted names, dollar quotes, nested comments. Everything but the names is
 * copied byte by byte. */
#include "config/sql_names.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "config/suggest.h"

enum { SQL_NAME_COUNT = SQL_INPUTS + 1 };

static const struct {
    const char *name, *type;
} sql_names[SQL_NAME_COUNT] = {
    [SQL_KEY] = {"key", "text"},
    [SQL_PAYLOAD] = {"payload", "jsonb"},
    [SQL_INPUT] = {"input", "jsonb"},
    [SQL_VERSION] = {"version", "bigint"},
    [SQL_UPDATED_AT] = {"updated_at", "timestamptz"},
    [SQL_INPUTS] = {"inputs", "jsonb"},
};

struct binder {
    struct arena *arena;
    const char *text, *at;
    struct buf *out;
    enum sql_name params[SQL_NAME_COUNT];
    int param_count;
    bool any;   /* there was anything but blanks, comments and ';' */
    bool ended; /* and a ';' behind it */
    struct sql_fault *fault;
};

static bool refuse(struct binder *binder, const char *at, const char *hint, const char *message) {
    *binder->fault = (struct sql_fault){(size_t)(at - binder->text), message, hint};
    return false;
}

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r' || byte == '\f' ||
           byte == '\v';
}

static bool is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

static bool begins_word(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
           (unsigned char)byte >= 0x80;
}

static bool is_in_word(char byte) {
    return begins_word(byte) || is_digit(byte);
}

/* ---- finding the end of what is not code: each returns NULL when there is none -------------- */

/* `at` stands behind the opening quote; so does the result behind the closing one. */
static const char *skip_quoted(const char *at, char quote, bool escapes) {
    for (; *at != '\0'; at++) {
        if (escapes && *at == '\\' && at[1] != '\0') {
            at++;
        } else if (*at == quote) {
            if (at[1] != quote) {
                return at + 1;
            }
            at++;
        }
    }
    return NULL;
}

static const char *skip_line_comment(const char *at) {
    return at + strcspn(at, "\r\n");
}

/* The next part of a text that goes on behind a line break ('a' NEWLINE 'b'), or NULL. */
static const char *find_continuation(const char *at) {
    bool broken = false;
    for (;;) {
        if (is_blank(*at)) {
            broken |= *at == '\n' || *at == '\r';
            at++;
        } else if (at[0] == '-' && at[1] == '-') {
            at = skip_line_comment(at);
        } else {
            return broken && *at == '\'' ? at : NULL;
        }
    }
}

/* Escapes hold in all parts of a text, though only the first has the E. */
static const char *skip_escape_text(const char *at) {
    const char *end = skip_quoted(at, '\'', true), *next;
    while (end != NULL && (next = find_continuation(end)) != NULL) {
        end = skip_quoted(next + 1, '\'', true);
    }
    return end;
}

static const char *skip_block_comment(const char *at) {
    int depth = 0;
    do {
        if (at[0] == '/' && at[1] == '*') {
            depth++;
            at += 2;
        } else if (at[0] == '*' && at[1] == '/') {
            depth--;
            at += 2;
        } else if (*at == '\0') {
            return NULL;
        } else {
            at++;
        }
    } while (depth > 0);
    return at;
}

/* Length of $$ or $tag$ at `at`, 0 when it is neither. */
static size_t dollar_tag(const char *at) {
    size_t length = 1;
    if (begins_word(at[length])) {
        while (is_in_word(at[length])) {
            length++;
        }
    }
    return at[length] == '$' ? length + 1 : 0;
}

static const char *skip_dollar_quoted(const char *at, size_t tag) {
    for (const char *end = strchr(at + tag, '$'); end != NULL; end = strchr(end + 1, '$')) {
        if (strncmp(end, at, tag) == 0) {
            return end + tag;
        }
    }
    return NULL;
}

/* ---- code ---------------------------------------------------------------------------------- */

static void copy_until(struct binder *binder, const char *end) {
    buf_append(binder->out, binder->at, (size_t)(end - binder->at));
    binder->at = end;
}

/* Copies what ends at `end`; without an end, what was opened is never closed. */
static bool copy_closed(struct binder *binder, const char *end, const char *what) {
    if (end == NULL) {
        return refuse(binder, binder->at, NULL,
                      arena_format(binder->arena, "%s is opened here and not closed", what));
    }
    copy_until(binder, end);
    return true;
}

static bool copy_word(struct binder *binder) {
    const char *end = binder->at;
    if ((*end == 'e' || *end == 'E') && end[1] == '\'') {
        return copy_closed(binder, skip_escape_text(end + 2), "a text");
    }
    while (is_in_word(*end) || *end == '$') {
        end++;
    }
    copy_until(binder, end);
    return true;
}

static bool copy_dollar(struct binder *binder) {
    size_t tag = dollar_tag(binder->at);
    if (tag > 0) {
        return copy_closed(binder, skip_dollar_quoted(binder->at, tag), "a dollar-quoted text");
    }
    if (is_digit(binder->at[1])) {
        return refuse(binder, binder->at, "write :key, :payload, :input, :inputs, :version or :updated_at",
                      "numbered parameters are not available here");
    }
    copy_until(binder, binder->at + 1);
    return true;
}

static int param_number(struct binder *binder, enum sql_name name) {
    for (int i = 0; i < binder->param_count; i++) {
        if (binder->params[i] == name) {
            return i + 1;
        }
    }
    binder->params[binder->param_count++] = name;
    return binder->param_count;
}

static bool refuse_name(struct binder *binder, const char *word) {
    const char *hint = "the names are :key, :payload, :input, :inputs, :version and :updated_at; a "
                       "slice wants a blank behind its ':'";
    int nearest = (int)strlen(word) / 3 + 1;
    for (int i = 0; i < SQL_NAME_COUNT; i++) {
        int distance = suggest_distance(word, sql_names[i].name);
        if (distance < nearest) {
            nearest = distance;
            hint = arena_format(binder->arena, "did you mean ':%s'?", sql_names[i].name);
        }
    }
    return refuse(binder, binder->at, hint,
                  arena_format(binder->arena, "there is no value ':%.63s'", word));
}

static bool bind_name(struct binder *binder) {
    const char *name = binder->at + 1, *end = name;
    while (is_in_word(*end)) {
        end++;
    }
    const char *word = arena_copy(binder->arena, name, (size_t)(end - name));
    for (int i = 0; i < SQL_NAME_COUNT; i++) {
        if (strcmp(word, sql_names[i].name) != 0) {
            continue;
        }
        /* A '[' behind the cast would be taken as part of its type. */
        const char *next = end;
        while (is_blank(*next)) {
            next++;
        }
        buf_append_format(binder->out, *next == '[' ? "($%d::%s)" : "$%d::%s",
                          param_number(binder, (enum sql_name)i), sql_names[i].type);
        binder->at = end;
        return true;
    }
    return refuse_name(binder, word);
}

static bool bind_colon(struct binder *binder) {
    const char *at = binder->at;
    if (at[1] == ':' || at[1] == '=') {
        copy_until(binder, at + 2);
        return true;
    }
    if (begins_word(at[1])) {
        return bind_name(binder);
    }
    if (at[1] == '\'' || at[1] == '"') {
        return refuse(binder, at, "write :key, without quotes",
                      "a name behind ':' must not be quoted");
    }
    copy_until(binder, at + 1);
    return true;
}

static bool bind_code(struct binder *binder) {
    char byte = *binder->at;
    if (byte == ';') {
        binder->ended = binder->any;
        copy_until(binder, binder->at + 1);
        return true;
    }
    if (binder->ended) {
        return refuse(binder, binder->at, "write a list of texts, one statement each",
                      "a second statement begins here");
    }
    binder->any = true;
    if (byte == '\'') {
        return copy_closed(binder, skip_quoted(binder->at + 1, '\'', false), "a text");
    }
    if (byte == '"') {
        return copy_closed(binder, skip_quoted(binder->at + 1, '"', false), "a quoted name");
    }
    if (byte == '$') {
        return copy_dollar(binder);
    }
    if (byte == ':') {
        return bind_colon(binder);
    }
    if (begins_word(byte)) {
        return copy_word(binder);
    }
    copy_until(binder, binder->at + 1);
    return true;
}

static bool bind_all(struct binder *binder) {
    while (*binder->at != '\0') {
        const char *at = binder->at;
        bool ok = true;
        if (is_blank(*at)) {
            copy_until(binder, at + 1);
        } else if (at[0] == '-' && at[1] == '-') {
            copy_until(binder, skip_line_comment(at));
        } else if (at[0] == '/' && at[1] == '*') {
            ok = copy_closed(binder, skip_block_comment(at), "a comment");
        } else {
            ok = bind_code(binder);
        }
        if (!ok) {
            return false;
        }
    }
    return binder->any || refuse(binder, binder->text, NULL, "there is no statement in this text");
}

bool sql_names_bind(struct arena *arena, const char *text, struct stage_statement *out,
                    struct sql_fault *fault) {
    struct buf bound;
    buf_init(&bound, SIZE_MAX);
    struct binder binder = {
        .arena = arena, .text = text, .at = text, .out = &bound, .fault = fault};
    bool ok = bind_all(&binder);
    if (ok) {
        size_t size = (size_t)binder.param_count * sizeof(enum sql_name);
        enum sql_name *params = arena_alloc(arena, size);
        memcpy(params, binder.params, size);
        *out = (struct stage_statement){.text = arena_copy(arena, bound.data, bound.length),
                                        .param_count = binder.param_count,
                                        .params = params};
    }
    buf_finish(&bound);
    return ok;
}

enum status sql_bind_names(struct arena *arena, const char *text, struct stage_statement *out,
                           struct error *err) {
    struct sql_fault fault;
    if (sql_names_bind(arena, text, out, &fault)) {
        return STATUS_OK;
    }
    int line = 1, column = 1;
    for (size_t i = 0; i < fault.offset; i++) {
        bool line_ends = text[i] == '\n';
        line += line_ends ? 1 : 0;
        column = line_ends ? 1 : column + (((unsigned char)text[i + 1] & 0xC0) != 0x80 ? 1 : 0);
    }
    if (err != NULL && err->code == STATUS_OK) {
        err->line = line;
        err->column = column;
    }
    return error_set(err, STATUS_INVALID, "line %d, column %d: %s%s%s%s", line, column,
                     fault.message, fault.hint == NULL ? "" : " (",
                     fault.hint == NULL ? "" : fault.hint, fault.hint == NULL ? "" : ")");
}
