#include "base/placeholder.h"

#include <string.h>

static const struct {
    const char *name;
    bool is_constant;    /* the same for every task */
    bool has_path;       /* {name.a.b} */
    bool is_of_one_task; /* a batch has many of them */
    bool is_of_document; /* whoever submits documents writes it */
} sources[] = {
    [PLACEHOLDER_LITERAL] = {"", true, false, false, false},
    [PLACEHOLDER_KEY] = {"key", false, false, true, true},
    [PLACEHOLDER_VERSION] = {"version", false, false, true, false},
    [PLACEHOLDER_ATTEMPT] = {"attempt", false, false, true, false},
    [PLACEHOLDER_TASK] = {"task", false, false, false, false},
    [PLACEHOLDER_PAYLOAD] = {"payload", false, true, true, true},
    [PLACEHOLDER_INPUT] = {"input", false, true, true, true},
    [PLACEHOLDER_INPUTS] = {"inputs", false, true, true, true},
    [PLACEHOLDER_PIPELINE] = {"pipeline", true, false, false, false},
    [PLACEHOLDER_STAGE] = {"stage", true, false, false, false},
    [PLACEHOLDER_FOLDER] = {"folder", true, false, false, false},
    [PLACEHOLDER_WORK] = {"work", true, false, false, false},
    [PLACEHOLDER_WITH] = {"with", true, true, false, false},
};
enum { SOURCE_COUNT = sizeof sources / sizeof sources[0] };

/* What stands between the braces. */
static enum status parse(const char *text, size_t length, struct placeholder_piece *piece, struct error *err) {
    const char *dot = memchr(text, '.', length);
    size_t name_length = dot == NULL ? length : (size_t)(dot - text);
    enum placeholder source = PLACEHOLDER_LITERAL;
    for (int i = PLACEHOLDER_LITERAL + 1; i < SOURCE_COUNT; i++) {
        if (strlen(sources[i].name) == name_length && memcmp(sources[i].name, text, name_length) == 0) {
            source = (enum placeholder)i;
        }
    }
    bool has_empty_path = dot != NULL && (name_length + 1 == length || text[length - 1] == '.' ||
                                          memmem(dot, length - name_length, "..", 2) != NULL);
    if (source == PLACEHOLDER_LITERAL || (dot != NULL && (!sources[source].has_path || has_empty_path))) {
        return error_set(err, STATUS_INVALID,
                         "the placeholder {%.*s} is not known; there are key, version, attempt, pipeline, stage, folder, "
                         "work, task, payload, input, inputs and with, the last four with .NAME; {{ and }} are braces",
                         length < 80 ? (int)length : 80, text);
    }
    *piece = (struct placeholder_piece){.source = source, .text = "", .length = 0};
    if (dot != NULL) {
        piece->text = dot + 1;
        piece->length = length - name_length - 1;
    }
    return STATUS_OK;
}

enum status placeholder_next(const char **at, struct placeholder_piece *piece, struct error *err) {
    const char *text = *at;
    size_t plain = strcspn(text, "{}");
    if (plain > 0) {
        *piece = (struct placeholder_piece){PLACEHOLDER_LITERAL, text, plain};
        *at += plain;
        return STATUS_OK;
    }
    if (text[0] == text[1]) {
        *piece = (struct placeholder_piece){PLACEHOLDER_LITERAL, text, 1};
        *at += 2;
        return STATUS_OK;
    }
    const char *end = strchr(text, '}');
    if (text[0] == '}' || end == NULL) {
        return error_set(err, STATUS_INVALID, "a single '%c': write %c%c for one that is no placeholder", text[0], text[0],
                         text[0]);
    }
    *at = end + 1;
    return parse(text + 1, (size_t)(end - text - 1), piece, err);
}

const char *placeholder_name(enum placeholder source) {
    return sources[source].name;
}

bool placeholder_is_constant(enum placeholder source) {
    return sources[source].is_constant;
}

/* Whether the path's last part is one of them, with or without a version behind it: python3.11. */
static bool is_interpreter(const char *program) {
    static const char *const names[] = {"sh",   "bash", "dash", "zsh", "ksh", "fish", "busybox", "python",
                                        "perl", "ruby", "node", "php", "lua", "awk",  "gawk",    "mawk"};
    const char *slash = strrchr(program, '/'), *name = slash == NULL ? program : slash + 1;
    size_t length = strcspn(name, "0123456789.");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* `sh -c "... {key} ..."` would have every document write a piece of the script; so would `env sh -c` and `perl -e`. A guard
 * against a slip, not against everybody who wants to: other programs run what they are given, too. */
static bool is_script(const char *const *arguments, size_t index) {
    const char *before = index > 0 ? arguments[index - 1] : "";
    size_t length = strlen(before);
    if (length < 2 || before[0] != '-' || before[1] == '-' || strchr("cer", before[length - 1]) == NULL) {
        return false;
    }
    for (size_t i = 0; i + 1 < index; i++) {
        if (is_interpreter(arguments[i])) {
            return true;
        }
    }
    return false;
}

static enum status check_piece(const struct placeholder_piece *piece, const char *const *arguments, size_t index, bool batch,
                               struct error *err) {
    const char *name = sources[piece->source].name;
    if (index == 0 && !sources[piece->source].is_constant) {
        return error_set(err, STATUS_INVALID, "{%s} in the name of the program: no document may say what is run", name);
    }
    if (batch && sources[piece->source].is_of_one_task) {
        return error_set(err, STATUS_INVALID,
                         "{%s%s%.*s} is of one task, but a stage with 'batch' runs many at once: read it from standard input",
                         name, piece->length > 0 ? "." : "", (int)piece->length, piece->text);
    }
    if (sources[piece->source].is_of_document && is_script(arguments, index)) {
        return error_set(err, STATUS_INVALID,
                         "a document's text would be a part of a script; give it as an argument of its own: "
                         "[sh, -c, 'echo \"$1\"', sh, \"{%s%s%.*s}\"]",
                         name, piece->length > 0 ? "." : "", (int)piece->length, piece->text);
    }
    return STATUS_OK;
}

enum status placeholders_check(const char *const *arguments, size_t count, bool batch, size_t *fault, struct error *err) {
    for (*fault = 0; *fault < count; ++*fault) {
        for (const char *at = arguments[*fault]; *at != '\0';) {
            struct placeholder_piece piece;
            if (placeholder_next(&at, &piece, err) != STATUS_OK ||
                check_piece(&piece, arguments, *fault, batch, err) != STATUS_OK) {
                return err->code;
            }
        }
    }
    *fault = 0;
    return count > 0 && arguments[0][0] != '\0' ? STATUS_OK
                                                : error_set(err, STATUS_INVALID, "the name of the program is empty");
}
