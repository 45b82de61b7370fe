/* result.h - what a statement gave back, without libpq showing through.
 *
 * Ownership: values are borrowed until the result (or the reply it belongs to) goes.
 */
#ifndef DB_RESULT_H
#define DB_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db_result; /* opaque */

/* A parameter in text form (or bytea in binary form). data NULL: SQL NULL. `data` must be NUL-terminated when text. */
struct db_param {
    const char *data;
    size_t length; /* used when binary */
    bool binary;
};

#define DB_TEXT(text) ((struct db_param){.data = (text)})
#define DB_NULL ((struct db_param){0})

int db_rows(const struct db_result *result);
int db_columns(const struct db_result *result);
int64_t db_affected(const struct db_result *result); /* rows touched by the command */
bool db_is_null(const struct db_result *result, int row, int column);
const char *db_value(const struct db_result *result, int row, int column); /* "" when NULL */
size_t db_length(const struct db_result *result, int row, int column);
int64_t db_int64(const struct db_result *result, int row, int column); /* 0 when NULL; REQUIREs a number */
bool db_bool(const struct db_result *result, int row, int column);     /* false when NULL */
const char *db_column_name(const struct db_result *result, int column);

#endif
