/* units.h - durations and sizes as people write them; a unit is always wanted.
 *
 * Durations: "250ms", "10s", "5m", "1h30m", "2d", "1w" (parts in falling order). Sizes: "512B", "64kB", "512MB", "2GB"
 * (powers of 1024, as PostgreSQL counts). Decimal numbers, no sign, no blanks; overflow is refused.
 */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNITS_WEEK_MS (INT64_C(7) * 24 * 3600 * 1000)

bool units_parse_duration(const char *text, int64_t *ms);
bool units_parse_size(const char *text, int64_t *bytes);

/* "1h30m", "10s", "250ms"; at most two units. Returns `out`. */
const char *units_format_duration(int64_t ms, char *out, size_t size);

#endif
