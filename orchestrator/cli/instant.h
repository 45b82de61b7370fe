/* instant.h - points in time as users write them: ISO 8601 with a zone, so that no server's setting gives them a meaning.
 */
#ifndef CLI_INSTANT_H
#define CLI_INSTANT_H

#include <stdbool.h>

/* "2026-01-31T12:00Z", "2026-01-31 12:00:00.5+01:00": a real date of the years 1 to 9999. */
bool instant_is_valid(const char *text);

#define INSTANT_FORM "an instant with its zone, such as 2026-01-31T12:00:00Z"

#endif
