#include "settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool settings_parse_size(const char *text, int64_t *bytes) {
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"", 0}, {"B", 0}, {"kB", 10}, {"MB", 20}, {"GB", 30}};
    int64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (value > INT64_MAX / 10 - 9) {
            return false;
        }
        value = value * 10 + (*at - '0');
    }
    for (size_t i = 0; at > text && i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(at, units[i].unit) == 0 && value <= INT64_MAX >> units[i].shift) {
            *bytes = value << units[i].shift;
            return true;
        }
    }
    return false;
}

static bool read_one(const json_t *value, const struct setting *setting, char *message,
                     size_t size) {
    int64_t number = 0;
    bool understood = false;
    if (json_is_integer(value)) {
        number = json_integer_value(value);
        understood = true;
    } else if (setting->is_size && json_is_string(value)) {
        understood = settings_parse_size(json_string_value(value), &number);
    }
    if (!understood) {
        snprintf(message, size, "with: %s must be %s", setting->name,
                 setting->is_size ? "a size, like 200MB" : "a whole number");
        return false;
    }
    if (number < setting->least || number > setting->most) {
        snprintf(message, size, "with: %s must be between %" PRId64 " and %" PRId64, setting->name,
                 setting->least, setting->most);
        return false;
    }
    *setting->value = number;
    return true;
}

bool settings_read(const json_t *config, const struct setting *table, char *message, size_t size) {
    const char *key;
    json_t *value;
    /* jansson's iterators want a json_t that is not const, and change nothing. */
    json_object_foreach((json_t *)(uintptr_t)config, key, value) {
        const struct setting *setting = table;
        while (setting->name != NULL && strcmp(setting->name, key) != 0) {
            setting++;
        }
        if (setting->name == NULL) {
            snprintf(message, size, "with: there is no setting '%.60s'; there is %s%s%s", key,
                     table[0].name, table[1].name == NULL ? "" : " and ",
                     table[1].name == NULL ? "" : table[1].name);
            return false;
        }
        if (!read_one(value, setting, message, size)) {
            return false;
        }
    }
    return true;
}
