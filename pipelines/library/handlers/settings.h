/* settings.h - numbers and sizes out of a stage's `with:` block. */
#ifndef LIBRARY_SETTINGS_H
#define LIBRARY_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* One setting: its value is a number, or with `is_size` also text with a unit, "200MB" (powers of
 * 1024). */
struct setting {
    const char *name;
    bool is_size;
    int64_t least, most;
    int64_t *value; /* holds the default before */
};

/* The table ends with a name of NULL. False: `message` says which setting is wrong, and how. An
 * unknown name is wrong, too: it is most likely a misspelled one. */
bool settings_read(const json_t *config, const struct setting *table, char *message, size_t size);

/* "512", "512B", "64kB", "200MB", "2GB" */
bool settings_parse_size(const char *text, int64_t *bytes);

#endif
