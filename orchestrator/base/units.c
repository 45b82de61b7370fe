/* units.c - tables of units, and the parsers that read them. */
#include "base/units.h"

#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    int64_t factor;
};

/* Falling order: the parser wants parts in this order, the formatter starts with the largest. */
static const struct unit duration_units[] = {
    {"w", INT64_C(7) * 24 * 3600 * 1000},
    {"d", INT64_C(24) * 3600 * 1000},
    {"h", INT64_C(3600) * 1000},
    {"m", INT64_C(60) * 1000},
    {"s", 1000},
    {"ms", 1},
};
enum { DURATION_UNIT_COUNT = sizeof duration_units / sizeof duration_units[0] };

static const struct unit size_units[] = {
    {"B", 1},
    {"kB", INT64_C(1) << 10},
    {"MB", INT64_C(1) << 20},
    {"GB", INT64_C(1) << 30},
    {"TB", INT64_C(1) << 40},
};
enum { SIZE_UNIT_COUNT = sizeof size_units / sizeof size_units[0] };

/* Reads digits; false when there are none or the number is too large. Ctype functions depend on the
 * locale. */
static bool read_number(const char **text, int64_t *number) {
    const char *at = *text;
    int64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *at - '0', &value)) {
            return false;
        }
    }
    if (at == *text) {
        return false;
    }
    *text = at;
    *number = value;
    return true;
}

/* Reads the letters up to the next digit or the end as one name; its index in `units`, or -1. */
static int read_unit(const char **text, const struct unit *units, int count) {
    size_t length = strcspn(*text, "0123456789");
    for (int i = 0; i < count; i++) {
        if (strlen(units[i].name) == length && memcmp(units[i].name, *text, length) == 0) {
            *text += length;
            return i;
        }
    }
    return -1;
}

bool units_parse_duration(const char *text, int64_t *ms) {
    int64_t total = 0;
    int last = -1;
    if (text == NULL) {
        return false;
    }
    do {
        int64_t number;
        if (!read_number(&text, &number)) {
            return false;
        }
        int unit = read_unit(&text, duration_units, DURATION_UNIT_COUNT);
        if (unit <= last || __builtin_mul_overflow(number, duration_units[unit].factor, &number) ||
            __builtin_add_overflow(total, number, &total)) {
            return false;
        }
        last = unit;
    } while (*text != '\0');
    *ms = total;
    return true;
}

bool units_parse_size(const char *text, int64_t *bytes) {
    int64_t number;
    if (text == NULL || !read_number(&text, &number)) {
        return false;
    }
    int unit = read_unit(&text, size_units, SIZE_UNIT_COUNT);
    if (unit < 0 || *text != '\0' ||
        __builtin_mul_overflow(number, size_units[unit].factor, &number)) {
        return false;
    }
    *bytes = number;
    return true;
}

const char *units_format_duration(int64_t ms, char *out, size_t size) {
    uint64_t rest = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
    char text[48] = "";
    size_t used = 0;
    if (ms < 0) {
        text[used++] = '-';
    }
    int parts = 0;
    for (int i = 0; i < DURATION_UNIT_COUNT && parts < 2; i++) {
        uint64_t factor = (uint64_t)duration_units[i].factor;
        if (rest >= factor) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%llu%s",
                                     (unsigned long long)(rest / factor), duration_units[i].name);
            rest %= factor;
            parts++;
        }
    }
    snprintf(out, size, "%s", parts == 0 ? "0s" : text);
    return out;
}
