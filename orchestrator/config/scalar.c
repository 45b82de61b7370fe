/* scalar.c - one reader a type. YAML's own ideas of types (no, 010, 1:30, 1e3) play no part. */
#include "config/scalar.h"

#include <string.h>

#include "base/backoff.h"
#include "base/require.h"
#include "base/units.h"
#include "config/mistakes.h"
#include "config/pipeline.h"

struct reading {
    const struct config_key *key;
    const char *text;
    struct arena *arena;
    struct scalar_fault *fault;
};

/* "'KEY' must be WANTED, not 'TEXT'". */
static bool refuse(const struct reading *reading, const char *wanted, const char *hint) {
    *reading->fault = (struct scalar_fault){
        .message = arena_format(reading->arena, "'%s' must be %s, not %s", reading->key->name,
                                wanted, mistake_quote(reading->arena, reading->text)),
        .hint = hint};
    return false;
}

static bool is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

static bool is_letter(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static size_t count_digits(const char *text) {
    return strspn(text, "0123456789");
}

/* ---- names --------------------------------------------------------------------------------- */

bool scalar_is_name(const char *text) {
    size_t length = strlen(text);
    if (length < 1 || length > CONFIG_NAME_MAX || text[0] == '-' || text[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (!is_digit(text[i]) && !is_letter(text[i]) && strchr("_-.", text[i]) == NULL) {
            return false;
        }
    }
    return true;
}

static bool read_name(const struct reading *reading, const char **value) {
    if (!scalar_is_name(reading->text)) {
        return refuse(reading,
                      "a name of letters a-z, digits, '_', '-' and '.', at most 63 bytes, that "
                      "begins with a letter, a digit or '_'",
                      NULL);
    }
    *value = reading->text;
    return true;
}

static bool read_role(const struct reading *reading, const char **value) {
    size_t length = strlen(reading->text);
    if (length < 1 || length > CONFIG_NAME_MAX) {
        return refuse(reading, "the name of a database role, 1 to 63 bytes", NULL);
    }
    /* SET ROLE takes this word, in any quotes, for "no role at all". */
    if (strcmp(reading->text, "none") == 0) {
        return refuse(reading, "the name of a database role",
                      "PostgreSQL reserves 'none'; leave 'role' out to run as the user of the "
                      "connection");
    }
    *value = reading->text;
    return true;
}

/* ---- numbers ------------------------------------------------------------------------------- */

/* Decimal digits without a leading zero, at most 18 of them. */
static bool parse_integer(const char *text, int64_t *value) {
    size_t length = count_digits(text);
    if (length < 1 || length > 18 || text[length] != '\0' || (text[0] == '0' && length > 1)) {
        return false;
    }
    *value = 0;
    for (size_t i = 0; i < length; i++) {
        *value = *value * 10 + (text[i] - '0');
    }
    return true;
}

/* With a minus sign in front where the key allows numbers below zero. */
static bool parse_number(const struct config_key *key, const char *text, int64_t *value) {
    bool negative = key->low < 0 && text[0] == '-';
    if (!parse_integer(text + (negative ? 1 : 0), value) || (negative && *value == 0)) {
        return false;
    }
    *value = negative ? -*value : *value;
    return true;
}

/* NULL: it is a number, only not one of those that the key takes; or nothing. */
static const char *integer_hint(const struct config_key *key, const char *text) {
    bool negative = key->low < 0 && text[0] == '-';
    const char *digits = text + (negative ? 1 : 0);
    bool has_leading_zero = digits[0] == '0' && (negative || digits[1] != '\0');
    if (count_digits(digits) == strlen(digits) && !has_leading_zero) {
        return NULL;
    }
    return key->low < 0 ? "decimal digits, with '-' in front below zero: no plus, point, blank, '_' or leading zero"
                        : "decimal digits only: no sign, point, blank, '_' or leading zero";
}

static void store_integer(const struct config_key *key, void *field, int64_t value) {
    if (key->size == sizeof(int)) {
        *(int *)field = (int)value;
    } else {
        REQUIRE(key->size == sizeof(int64_t));
        *(int64_t *)field = value;
    }
}

static bool read_integer(const struct reading *reading, void *field) {
    int64_t value;
    const struct config_key *key = reading->key;
    if (!parse_number(key, reading->text, &value) || value < key->low || value > key->high) {
        return refuse(reading,
                      arena_format(reading->arena, "a whole number from %lld to %lld%s",
                                   (long long)key->low, (long long)key->high,
                                   key->none_allowed ? ", or none" : ""),
                      integer_hint(key, reading->text));
    }
    store_integer(key, field, value);
    return true;
}

static bool read_percent(const struct reading *reading, int *value) {
    size_t length = strlen(reading->text);
    char digits[4] = "";
    int64_t number;
    if (length >= 2 && length <= sizeof digits && reading->text[length - 1] == '%') {
        memcpy(digits, reading->text, length - 1);
    }
    if (!parse_integer(digits, &number) || number < reading->key->low ||
        number > reading->key->high) {
        const char *hint = NULL;
        if (parse_integer(reading->text, &number) && number <= reading->key->high) {
            hint = arena_format(reading->arena, "did you mean '%s%%'?", reading->text);
        }
        return refuse(reading,
                      arena_format(reading->arena, "a per cent from %lld%% to %lld%%",
                                   (long long)reading->key->low, (long long)reading->key->high),
                      hint);
    }
    *value = (int)number;
    return true;
}

/* ---- durations ----------------------------------------------------------------------------- */

const char *scalar_format_duration(struct arena *arena, int64_t ms) {
    char text[48];
    return arena_copy_string(arena, units_format_duration(ms, text, sizeof text));
}

/* The text with its blanks left out, when it is a duration then; the text with 's' behind it, when
 * it is a number; else NULL. */
static const char *repaired_duration(struct arena *arena, const char *text) {
    char copy[40];
    size_t length = 0;
    int64_t ms;
    for (; *text != '\0'; text++) {
        if (length + 2 >= sizeof copy) {
            return NULL;
        }
        if (*text != ' ') {
            bool capital = *text >= 'A' && *text <= 'Z';
            copy[length++] = (char)(*text + (capital ? 'a' - 'A' : 0));
        }
    }
    copy[length] = '\0';
    if (length > 0 && count_digits(copy) == length) {
        copy[length] = 's';
        copy[length + 1] = '\0';
    }
    return units_parse_duration(copy, &ms) ? arena_copy_string(arena, copy) : NULL;
}

static bool is_zero(const char *text) {
    int64_t ms;
    return strcmp(text, "0") == 0 || (units_parse_duration(text, &ms) && ms == 0);
}

static const char *duration_hint(const struct reading *reading) {
    if (is_zero(reading->text) && reading->key->none_allowed) {
        return arena_format(reading->arena, "for no limit write '%s: none'", reading->key->name);
    }
    const char *repaired = repaired_duration(reading->arena, reading->text);
    if (repaired == NULL || strcmp(repaired, reading->text) == 0) {
        return NULL;
    }
    return arena_format(reading->arena, "did you mean '%s'?", repaired);
}

/* `unit_ms`: what the value is counted in. */
static bool read_duration(const struct reading *reading, int64_t unit_ms, int64_t *value) {
    const struct config_key *key = reading->key;
    const char *none = key->none_allowed ? ", or none" : "";
    int64_t ms;
    if (!units_parse_duration(reading->text, &ms)) {
        return refuse(reading,
                      arena_format(reading->arena,
                                   "a duration with a unit, like 250ms, 10s, 5m, 1h30m or 2d%s",
                                   none),
                      duration_hint(reading));
    }
    if (ms < key->low * unit_ms || ms > key->high * unit_ms) {
        return refuse(reading,
                      arena_format(reading->arena, "a duration from %s to %s%s",
                                   scalar_format_duration(reading->arena, key->low * unit_ms),
                                   scalar_format_duration(reading->arena, key->high * unit_ms),
                                   none),
                      duration_hint(reading));
    }
    if (ms % unit_ms != 0) {
        return refuse(reading, "a duration of whole seconds", NULL);
    }
    *value = ms / unit_ms;
    return true;
}

/* ---- sizes --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int64_t factor;
} size_units[] = {
    {"TB", INT64_C(1) << 40},
    {"GB", INT64_C(1) << 30},
    {"MB", INT64_C(1) << 20},
    {"kB", INT64_C(1) << 10},
    {"B", 1},
};
enum { SIZE_UNIT_COUNT = sizeof size_units / sizeof size_units[0] };

const char *scalar_format_size(struct arena *arena, int64_t bytes) {
    for (int i = 0; i < SIZE_UNIT_COUNT; i++) {
        if (bytes >= size_units[i].factor && bytes % size_units[i].factor == 0) {
            return arena_format(arena, "%lld%s", (long long)(bytes / size_units[i].factor),
                                size_units[i].name);
        }
    }
    return "0B";
}

/* 512, 512M, 512mb, 512 MiB: 512MB. */
static const char *size_hint(const struct reading *reading) {
    if (strcmp(reading->text, "0") == 0 && reading->key->none_allowed) {
        return arena_format(reading->arena, "for no limit write '%s: none'", reading->key->name);
    }
    size_t digits = count_digits(reading->text);
    if (digits == 0 || digits > 12) {
        return NULL;
    }
    const char *unit = reading->text + digits;
    unit += strspn(unit, " ");
    const char *name = *unit == '\0' ? "MB" : NULL;
    for (int i = 0; i < SIZE_UNIT_COUNT && *unit != '\0'; i++) {
        char upper = (char)(*unit >= 'a' && *unit <= 'z' ? *unit - 'a' + 'A' : *unit);
        if (upper == (size_units[i].name[0] == 'k' ? 'K' : size_units[i].name[0])) {
            name = size_units[i].name;
        }
    }
    if (name == NULL) {
        return NULL;
    }
    const char *repaired = arena_format(reading->arena, "%.*s%s", (int)digits, reading->text, name);
    if (strcmp(repaired, reading->text) == 0) {
        return NULL;
    }
    return arena_format(reading->arena, "did you mean '%s'?", repaired);
}

static bool read_size(const struct reading *reading, int64_t *value) {
    const struct config_key *key = reading->key;
    const char *none = key->none_allowed ? ", or none" : "";
    int64_t bytes;
    if (!units_parse_size(reading->text, &bytes)) {
        return refuse(
            reading,
            arena_format(reading->arena, "a size with a unit, like 64kB, 512MB or 2GB%s", none),
            size_hint(reading));
    }
    if (bytes < key->low || bytes > key->high) {
        return refuse(reading,
                      arena_format(reading->arena, "a size from %s to %s%s",
                                   scalar_format_size(reading->arena, key->low),
                                   scalar_format_size(reading->arena, key->high), none),
                      NULL);
    }
    *value = bytes;
    return true;
}

/* ---- words --------------------------------------------------------------------------------- */

static bool read_boolean(const struct reading *reading, bool *value) {
    bool is_true = strcmp(reading->text, "true") == 0;
    if (!is_true && strcmp(reading->text, "false") != 0) {
        return refuse(reading, "true or false", NULL);
    }
    *value = is_true;
    return true;
}

static bool read_backoff(const struct reading *reading, enum backoff_kind *value) {
    for (int i = BACKOFF_CONSTANT; i <= BACKOFF_EXPONENTIAL; i++) {
        if (strcmp(reading->text, config_backoff_names[i]) == 0) {
            *value = (enum backoff_kind)i;
            return true;
        }
    }
    return refuse(reading, "constant, linear or exponential", NULL);
}

static bool read_text(const struct reading *reading, const char **value) {
    size_t length = strlen(reading->text);
    if (length < 1 || (int64_t)length > reading->key->high) {
        return refuse(reading,
                      arena_format(reading->arena, "a text of 1 to %lld bytes",
                                   (long long)reading->key->high),
                      NULL);
    }
    *value = reading->text;
    return true;
}

static bool read_word(const struct reading *reading, const char **value) {
    const char *const *words = reading->key->words;
    const char *wanted = words[0];
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(reading->text, words[i]) == 0) {
            *value = words[i];
            return true;
        }
    }
    for (int i = 1; words[i] != NULL; i++) {
        wanted = arena_format(reading->arena, "%s%s%s", wanted, words[i + 1] == NULL ? " or " : ", ", words[i]);
    }
    return refuse(reading, wanted, NULL);
}

/* ---- by type ------------------------------------------------------------------------------- */

bool scalar_read(const struct config_key *key, const char *text, void *target, struct arena *arena,
                 struct scalar_fault *fault) {
    const struct reading reading = {key, text, arena, fault};
    void *field = (char *)target + key->offset;
    if (key->none_allowed && strcmp(text, "none") == 0) {
        store_integer(key, field, 0);
        return true;
    }
    switch (key->type) {
    case TYPE_NAME:
        return read_name(&reading, field);
    case TYPE_ROLE:
        return read_role(&reading, field);
    case TYPE_INTEGER:
        return read_integer(&reading, field);
    case TYPE_DURATION:
        return read_duration(&reading, 1, field);
    case TYPE_SECONDS:
        return read_duration(&reading, 1000, field);
    case TYPE_SIZE:
        return read_size(&reading, field);
    case TYPE_PERCENT:
        return read_percent(&reading, field);
    case TYPE_BOOLEAN:
        return read_boolean(&reading, field);
    case TYPE_BACKOFF:
        return read_backoff(&reading, field);
    case TYPE_TEXT:
        return read_text(&reading, field);
    case TYPE_WORD:
        return read_word(&reading, field);
    case TYPE_DO:
    case TYPE_SCHEDULES:
    case TYPE_PATH:
    case TYPE_TEXTS:
    case TYPE_LABELS:
    case TYPE_NAMES:
    case TYPE_VARIABLES:
    case TYPE_ARGUMENTS:
    case TYPE_HANDLER:
    case TYPE_SQL:
    case TYPE_JSON:
    case TYPE_MAPPING:
    case TYPE_STAGES:
        break;
    }
    REQUIRE(false && "scalar_read: not a scalar type");
    return false;
}
