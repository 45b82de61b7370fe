/* sql_names.h - the :names of an SQL text become numbered parameters; with the byte that is wrong.
 *
 * sql_bind_names (pipeline.h) is the same with a line and a column.
 */
#ifndef CONFIG_SQL_NAMES_H
#define CONFIG_SQL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "config/pipeline.h"

struct sql_fault {
    size_t offset;       /* in the text */
    const char *message; /* in the arena */
    const char *hint;    /* or NULL */
};

bool sql_names_bind(struct arena *arena, const char *text, struct stage_statement *out,
                    struct sql_fault *fault);

#endif
