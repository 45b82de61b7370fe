#include "config/cron.h"

#include <string.h>
#include <strings.h>

#include "config/mistakes.h"

enum { MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELD_COUNT };

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun", "jul",
                                          "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};

static const struct field {
    const char *title;
    int low, high;
    const char *const *names; /* of low, low + 1, ...; NULL: none */
} fields[FIELD_COUNT] = {
    [MINUTE] = {"minute", 0, 59, NULL},
    [HOUR] = {"hour", 0, 23, NULL},
    [DAY] = {"day of the month", 1, 31, NULL},
    [MONTH] = {"month", 1, 12, month_names},
    [WEEKDAY] = {"weekday", 0, 7, weekday_names},
};

static const struct {
    const char *name, *entry;
} nicknames[] = {
    {"@hourly", "0 * * * *"},  {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"}, {"@weekly", "0 0 * * 0"},
    {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"},
};

#define SHAPE "five fields: minute hour day month weekday, like '30 2 * * mon-fri'"

struct parse {
    const char *text;
    struct arena *arena;
    struct cron_fault *fault;
};

static bool refuse(const struct parse *parse, const char *at, const char *message, const char *hint) {
    *parse->fault = (struct cron_fault){(size_t)(at - parse->text), message, hint};
    return false;
}

static bool refuse_part(const struct parse *parse, const struct field *field, const char *at, size_t length,
                        const char *hint) {
    const char *part = arena_copy(parse->arena, at, length);
    return refuse(parse, at,
                  arena_format(parse->arena, "the %s must be from %d to %d%s, not %s", field->title, field->low,
                               field->high, field->names == NULL ? "" : ", or a name's first three letters",
                               mistake_quote(parse->arena, part)),
                  hint);
}

/* ---- one field ---------------------------------------------------------------------------------------------------- */

/* A number of at most three digits, or a name; -1: neither. */
static int read_value(const struct field *field, const char **at) {
    size_t digits = strspn(*at, "0123456789");
    if (digits > 0) {
        int value = 0;
        for (size_t i = 0; i < digits; i++) {
            value = value > 999 ? value : value * 10 + ((*at)[i] - '0');
        }
        *at += digits;
        return value;
    }
    for (int i = 0; field->names != NULL && field->names[i] != NULL; i++) {
        if (strncasecmp(*at, field->names[i], 3) == 0) {
            *at += 3;
            return field->low + i;
        }
    }
    return -1;
}

/* `*`, `a` or `a-b`. */
static bool read_range(const struct parse *parse, const struct field *field, const char **at, size_t length, int *first,
                       int *last) {
    const char *begin = *at;
    if (**at == '*') {
        (*at)++;
        *first = field->low;
        *last = field == &fields[WEEKDAY] ? 6 : field->high;
        return true;
    }
    *first = *last = read_value(field, at);
    if (*first >= field->low && *first <= field->high && **at == '-') {
        (*at)++;
        *last = read_value(field, at);
        if (field == &fields[WEEKDAY] && *last == 0 && *first > 0) {
            *last = 7; /* fri-sun */
        }
    }
    if (*first < field->low || *first > field->high || *last < field->low || *last > field->high) {
        return refuse_part(parse, field, begin, length, NULL);
    }
    if (*last < *first) {
        return refuse_part(parse, field, begin, length, "a range goes up; for one over the end write two: 22-23,0-4");
    }
    return true;
}

static bool read_part(const struct parse *parse, const struct field *field, const char *begin, size_t length,
                      int64_t *mask) {
    const char *at = begin;
    int first = 0, last = 0, step = 1;
    if (!read_range(parse, field, &at, length, &first, &last)) {
        return false;
    }
    if (*at == '/' && first == last && *begin != '*') {
        return refuse_part(parse, field, begin, length,
                           arena_format(parse->arena, "a step wants a range: %d-%d%.*s", first, field->high,
                                        (int)(length - (size_t)(at - begin)), at));
    }
    if (*at == '/') {
        const struct field steps = {field->title, 1, field->high, NULL};
        const char *number = ++at;
        step = read_value(&steps, &at);
        if (step < 1 || step > field->high) {
            return refuse(parse, number,
                          arena_format(parse->arena, "the step of the %s must be from 1 to %d", field->title, field->high),
                          NULL);
        }
    }
    if (at != begin + length) {
        return refuse_part(parse, field, begin, length, NULL);
    }
    for (int value = first; value <= last; value += step) {
        *mask |= INT64_C(1) << (field == &fields[WEEKDAY] ? value % 7 : value);
    }
    return true;
}

static bool read_field(const struct parse *parse, const struct field *field, const char *begin, size_t length,
                       int64_t *mask) {
    for (const char *at = begin; at <= begin + length;) {
        size_t part = strcspn(at, ", \t");
        if (!read_part(parse, field, at, part, mask)) {
            return false;
        }
        at += part + 1;
    }
    return true;
}

/* ---- the entry ---------------------------------------------------------------------------------------------------- */

static bool has_a_day(const struct cron_masks *masks) {
    static const int longest[] = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    for (int month = 1; month <= 12; month++) {
        int64_t days = masks->days & ((INT64_C(2) << longest[month]) - 1);
        if ((masks->months >> month & 1) != 0 && days != 0) {
            return true;
        }
    }
    return masks->day_or_weekday;
}

static const char *skip_blanks(const char *text) {
    return text + strspn(text, " \t");
}

static const char *entry_of(const char *text) {
    for (size_t i = 0; i < sizeof nicknames / sizeof nicknames[0]; i++) {
        if (strcasecmp(text, nicknames[i].name) == 0) {
            return nicknames[i].entry;
        }
    }
    return text;
}

bool cron_parse(const char *text, struct cron_masks *masks, struct arena *arena, struct cron_fault *fault) {
    const struct parse parse = {entry_of(text), arena, fault};
    const char *at = skip_blanks(parse.text), *begin[FIELD_COUNT];
    int64_t bits[FIELD_COUNT] = {0};
    if (*at == '@') {
        return refuse(&parse, at, arena_format(arena, "there is no %s", mistake_quote(arena, at)),
                      "there are @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually");
    }
    for (int i = 0; i < FIELD_COUNT; i++) {
        size_t length = strcspn(at, " \t");
        if (length == 0) {
            return refuse(&parse, at, arena_format(arena, "the %s is missing", fields[i].title), SHAPE);
        }
        begin[i] = at;
        if (!read_field(&parse, &fields[i], at, length, &bits[i])) {
            return false;
        }
        at = skip_blanks(at + length);
    }
    if (*at != '\0') {
        return refuse(&parse, at, "there are more than five fields", SHAPE "; there are no seconds");
    }
    *masks = (struct cron_masks){.minutes = bits[MINUTE],
                                 .hours = (int)bits[HOUR],
                                 .days = bits[DAY],
                                 .months = (int)bits[MONTH],
                                 .weekdays = (int)bits[WEEKDAY],
                                 .day_or_weekday = *begin[DAY] != '*' && *begin[WEEKDAY] != '*'};
    if (!has_a_day(masks)) {
        return refuse(&parse, begin[DAY], "no such day ever comes: the months have fewer days", NULL);
    }
    return true;
}

int cron_smallest_gap_minutes(const struct cron_masks *masks) {
    enum { HOUR_MINUTES = 60, DAY_MINUTES = 24 * HOUR_MINUTES };
    int last = -1, smallest = DAY_MINUTES;
    for (int minute = 0; minute < 2 * DAY_MINUTES; minute++) { /* over midnight as well */
        bool ticks = (masks->hours >> minute / HOUR_MINUTES % 24 & 1) != 0 && (masks->minutes >> minute % HOUR_MINUTES & 1) != 0;
        if (ticks && last >= 0 && minute - last < smallest) {
            smallest = minute - last;
        }
        last = ticks ? minute : last;
    }
    return smallest;
}
