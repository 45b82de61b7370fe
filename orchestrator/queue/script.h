/* script.h - the statements of one request, and the memory of their parameters.
 *
 * Built once, sent once or more, cleared for the next: script_add gives parameters that are NULL
 * until they are set. Ownership: all texts are copied. Overflow: what is larger than
 * SCRIPT_MAX_BYTES is dropped and noted; the sender looks at `overflow` once at the end. A script
 * never moves its statements' parameters.
 */
#ifndef QUEUE_SCRIPT_H
#define QUEUE_SCRIPT_H

#include "base/arena.h"
#include "base/buf.h"
#include "db/conn.h"
#include "sql/statements.h"

/* Below the gigabyte that PostgreSQL takes in one parameter. */
enum { SCRIPT_MAX_BYTES = 512 * 1024 * 1024 };

struct script {
    struct arena arena;
    struct buf literal; /* the array under construction */
    bool transaction, overflow;
    int count, capacity;
    struct db_statement *statements;
};

void script_init(struct script *script);
void script_clear(struct script *script);
void script_finish(struct script *script);

/* Adds a statement that is prepared under its name at its first use. Borrowed: the parameters, to
 * be set. */
struct db_param *script_add(struct script *script, const struct sql_statement *sql,
                            int param_count);
/* The same for SQL of foreign origin: never prepared under a name. */
struct db_param *script_add_text(struct script *script, const char *text, int param_count);

struct db_param script_int(struct script *script, int64_t value);
struct db_param script_text(struct script *script, const char *text); /* NULL: SQL NULL */
struct db_param script_bytes(struct script *script, const char *bytes, size_t length);
struct db_param script_ints(struct script *script, const int *values, int count);
struct db_param script_bigints(struct script *script, const int64_t *values, int count);
/* Ends the array begun in `literal` (array_begin, array_add_...) and takes a copy of it. */
struct db_param script_take_array(struct script *script);

struct db_request script_request(const struct script *script); /* borrowed */

#endif
