/* output.h - what commands print: standard output that notices a reader who went away, text made safe for terminals, and
 * aligned tables.
 *
 * Text of foreign origin (keys, reasons, payloads) never reaches a terminal with its control bytes. Nothing is coloured
 * unless standard output is a terminal. Thread rule: the main thread.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>

#include "base/buf.h"
#include "cli/command.h"

/* ---- standard output ---------------------------------------------------------------------------------------------- */

/* A closed pipe is noticed by output_put from now on, instead of ending the program: the session can be closed in order. */
void output_open(void);
void output_put(const struct buf *text);
/* Nobody reads any more, or the disk is full: there is no use in going on. */
bool output_is_broken(void);
/* `status`, unless the output could not be written: then the reason is printed, once. A closed pipe is no error. The program
 * ends with it, whatever its command printed with. */
enum exit_status output_finish(enum exit_status status);
/* Standard output is a terminal that wants colours (NO_COLOR is not set, TERM is not dumb). */
bool output_has_colour(void);

/* ---- text --------------------------------------------------------------------------------------------------------- */

/* Appends text with control characters as \n, \x1b and the like, cut to `max_width` columns with "…" (0: never cut). */
void text_show(struct buf *out, const char *text, int max_width);
/* The same, uncut, of a text of several lines: line ends and tabs stay. */
void text_show_lines(struct buf *out, const char *text);
/* text_show, uncut, as a string. Ownership: borrowed until the fourth next call. */
const char *text_shown(const char *text);
/* Columns that it takes on a terminal. */
int text_width(const char *text);
/* "2026-01-31T12:00:00.123456+00:00" as "2026-01-31 12:00:00+00". */
void text_time(struct buf *out, const char *iso);
/* "s", or "" behind one: "3 tasks". */
const char *text_plural(int64_t count);
/* "0.25 ms", "12 ms", "3.4 s", "5m10s". */
void text_span(struct buf *out, double ms);
/* "512 B", "1.5 kB". */
void text_size(struct buf *out, int64_t bytes);

/* ---- tables ------------------------------------------------------------------------------------------------------- */

struct table_column {
    const char *title;
    bool right; /* numbers */
};

enum { TABLE_COLUMNS_MAX = 16 };

struct table {
    const struct table_column *columns;
    int count;
    int widths[TABLE_COLUMNS_MAX];
    bool headed;
    char **cells; /* row after row */
    int cell_count, cell_capacity;
};

void table_init(struct table *table, const struct table_column *columns, int count);
void table_add(struct table *table, const char *cell);
void table_add_int(struct table *table, int64_t value);
/* Appends the rows added so far, under the headings when it is the first time; widths only grow. */
void table_print(struct table *table, struct buf *out);
void table_finish(struct table *table);

#endif
