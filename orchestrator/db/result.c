/* result.c - typed access to what libpq holds as text. */
#include "db/result.h"

#include <errno.h>
#include <stdlib.h>

#include "base/require.h"
#include "db/result_pq.h"

int db_rows(const struct db_result *result) {
    return PQntuples(result_pq(result));
}

int db_columns(const struct db_result *result) {
    return PQnfields(result_pq(result));
}

static int64_t parse_int64(const char *text) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    REQUIRE(errno == 0 && end != text && *end == '\0');
    return value;
}

int64_t db_affected(const struct db_result *result) {
    const char *count = PQcmdTuples(result_pq(result));
    return count[0] == '\0' ? 0 : parse_int64(count);
}

static void require_cell(const struct db_result *result, int row, int column) {
    REQUIRE(row >= 0 && row < db_rows(result) && column >= 0 && column < db_columns(result));
}

bool db_is_null(const struct db_result *result, int row, int column) {
    require_cell(result, row, column);
    return PQgetisnull(result_pq(result), row, column) != 0;
}

const char *db_value(const struct db_result *result, int row, int column) {
    require_cell(result, row, column);
    return PQgetvalue(result_pq(result), row, column);
}

size_t db_length(const struct db_result *result, int row, int column) {
    require_cell(result, row, column);
    return (size_t)PQgetlength(result_pq(result), row, column);
}

int64_t db_int64(const struct db_result *result, int row, int column) {
    return db_is_null(result, row, column) ? 0 : parse_int64(db_value(result, row, column));
}

bool db_bool(const struct db_result *result, int row, int column) {
    return !db_is_null(result, row, column) && db_value(result, row, column)[0] == 't';
}

const char *db_column_name(const struct db_result *result, int column) {
    REQUIRE(column >= 0 && column < db_columns(result));
    return PQfname(result_pq(result), column);
}
