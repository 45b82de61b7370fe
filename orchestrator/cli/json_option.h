/* json_option.h - options that take JSON: as it stands, from a file (@FILE), or from standard input (-).
 */
#ifndef CLI_JSON_OPTION_H
#define CLI_JSON_OPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/command.h"

/* The text, checked: one JSON value that PostgreSQL can store, of at most PAYLOAD_MAX bytes. A mistake is printed. *text stays
 * NULL when the option was not given. Ownership: free() it, in any case. */
enum exit_status json_option_read(const struct args *args, const char *name, char **text, size_t *length);

/* Whether a text that was checked is `null`. */
bool json_text_is_null(const char *text);

#endif
