#include "cli/output.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/require.h"
#include "base/units.h"
#include "base/utf8.h"

/* ---- standard output ---------------------------------------------------------------------------------------------- */

static int write_error; /* errno of the first write that failed */
static bool error_was_said;

void output_open(void) {
    signal(SIGPIPE, SIG_IGN);
}

void output_put(const struct buf *text) {
    if (write_error != 0 || text->length == 0) {
        return;
    }
    errno = 0;
    if (fwrite(text->data, 1, text->length, stdout) != text->length || fflush(stdout) != 0) {
        write_error = errno != 0 ? errno : EIO;
    }
}

bool output_is_broken(void) {
    return write_error != 0;
}

enum exit_status output_finish(enum exit_status status) {
    errno = 0;
    if (write_error == 0 && (fflush(stdout) != 0 || ferror(stdout) != 0)) { /* printf drops what it could not write */
        write_error = errno != 0 ? errno : EIO;
    }
    if (write_error == 0 || write_error == EPIPE) {
        return status;
    }
    if (!error_was_said) {
        fprintf(stderr, "pgstage: cannot write to standard output: %s\n", strerror(write_error));
        error_was_said = true;
    }
    return status == EXIT_OK ? EXIT_SOME_FAILED : status;
}

bool output_has_colour(void) {
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDOUT_FILENO) == 1 && (no_colour == NULL || no_colour[0] == '\0') && term != NULL &&
           strcmp(term, "dumb") != 0;
}

/* ---- text --------------------------------------------------------------------------------------------------------- */

static uint32_t code_point(const char *at, size_t length) {
    static const unsigned char lead_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t value = (unsigned char)at[0] & lead_bits[length];
    for (size_t i = 1; i < length; i++) {
        value = value << 6 | ((unsigned char)at[i] & 0x3F);
    }
    return value;
}

struct span {
    uint32_t first, last;
};

static bool is_within(const struct span *spans, size_t count, uint32_t value) {
    for (size_t i = 0; i < count; i++) {
        if (value >= spans[i].first && value <= spans[i].last) {
            return true;
        }
    }
    return false;
}

/* What changes a terminal's state, or the order in which text is shown. */
static bool is_control(uint32_t value) {
    static const struct span controls[] = {
        {0, 0x1F}, {0x7F, 0x9F}, {0x200E, 0x200F}, {0x2028, 0x202E}, {0x2066, 0x2069}, {0xFEFF, 0xFEFF},
    };
    return is_within(controls, sizeof controls / sizeof controls[0], value);
}

/* The larger blocks of wide and of combining characters: enough to keep tables straight. */
static int width_of(uint32_t value) {
    static const struct span wide[] = {
        {0x1100, 0x115F}, {0x2E80, 0xA4CF}, {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
        {0xFF00, 0xFF60}, {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD},
    };
    static const struct span none[] = {{0x300, 0x36F}, {0x200B, 0x200D}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}};
    if (value < 0x300) {
        return 1;
    }
    if (is_within(none, sizeof none / sizeof none[0], value)) {
        return 0;
    }
    return is_within(wide, sizeof wide / sizeof wide[0], value) ? 2 : 1;
}

/* The next character as it is shown, in at most 12 bytes; returns how many bytes of `text` it takes. */
static size_t show_one(const char *text, char shown[12], int *width) {
    size_t left = strnlen(text, 4), taken = utf8_sequence(text, left);
    uint32_t value = taken == 0 ? (unsigned char)text[0] : code_point(text, taken);
    const char *letter = value < 0x20 ? strchr("\nn\tt\rr", (int)value) : NULL;
    if (letter != NULL && value != 0) {
        snprintf(shown, 12, "\\%c", letter[1]);
    } else if (taken == 0 || (is_control(value) && value < 0x100)) {
        snprintf(shown, 12, "\\x%02" PRIx32, value);
        taken = taken == 0 ? 1 : taken;
    } else if (is_control(value)) {
        snprintf(shown, 12, "\\u%04" PRIx32, value);
    } else {
        memcpy(shown, text, taken);
        shown[taken] = '\0';
        *width = width_of(value);
        return taken;
    }
    *width = (int)strlen(shown);
    return taken;
}

int text_width(const char *text) {
    int width = 0;
    while (*text != '\0') {
        char shown[12];
        int one = 0;
        text += show_one(text, shown, &one);
        width += one;
    }
    return width;
}

void text_show(struct buf *out, const char *text, int max_width) {
    bool cut = max_width > 0 && text_width(text) > max_width;
    int room = cut ? max_width - 1 : max_width;
    for (int used = 0; *text != '\0';) {
        char shown[12];
        int one = 0;
        text += show_one(text, shown, &one);
        used += one;
        if (cut && used > room) {
            buf_append_string(out, "…");
            return;
        }
        buf_append_string(out, shown);
    }
}

void text_show_lines(struct buf *out, const char *text) {
    while (*text != '\0') {
        char shown[12];
        int width = 0;
        if (*text == '\n' || *text == '\t') {
            buf_append_char(out, *text++);
            continue;
        }
        text += show_one(text, shown, &width);
        buf_append_string(out, shown);
    }
}

const char *text_shown(const char *text) {
    static struct buf slots[4];
    static int next;
    struct buf *slot = &slots[next++ % 4];
    buf_finish(slot);
    buf_init(slot, SIZE_MAX);
    text_show(slot, text, 0);
    return slot->data;
}

void text_time(struct buf *out, const char *iso) {
    size_t length = strlen(iso);
    if (length < 20 || iso[10] != 'T') {
        buf_append_string(out, iso); /* infinity */
        return;
    }
    buf_append(out, iso, 10);
    buf_append_char(out, ' ');
    buf_append(out, iso + 11, 8);
    const char *zone = iso + 19 + strspn(iso + 19, ".0123456789");
    size_t zone_length = strlen(zone);
    buf_append(out, zone, zone_length == 6 && strcmp(zone + 3, ":00") == 0 ? 3 : zone_length);
}

void text_span(struct buf *out, double ms) {
    char text[48];
    if (ms < 9.95) {
        buf_append_format(out, "%.2g ms", ms);
    } else if (ms < 999.5) {
        buf_append_format(out, "%.0f ms", ms);
    } else if (ms < 60 * 1000.0) {
        buf_append_format(out, "%.1f s", ms / 1000);
    } else {
        buf_append_string(out, units_format_duration((int64_t)ms / 1000 * 1000, text, sizeof text));
    }
}

void text_size(struct buf *out, int64_t bytes) {
    static const char *const names[] = {"B", "kB", "MB", "GB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 3) {
        value /= 1024;
        unit++;
    }
    buf_append_format(out, unit == 0 ? "%.0f %s" : "%.1f %s", value, names[unit]);
}

const char *text_plural(int64_t count) {
    return count == 1 ? "" : "s";
}

/* ---- tables ------------------------------------------------------------------------------------------------------- */

enum { GAP = 2 };

void table_init(struct table *table, const struct table_column *columns, int count) {
    REQUIRE(count <= TABLE_COLUMNS_MAX);
    *table = (struct table){.columns = columns, .count = count};
    for (int i = 0; i < count; i++) {
        table->widths[i] = text_width(columns[i].title);
    }
}

void table_add(struct table *table, const char *cell) {
    if (table->cell_count == table->cell_capacity) {
        table->cell_capacity = table->cell_capacity == 0 ? 64 : table->cell_capacity * 2;
        table->cells = mem_resize(table->cells, (size_t)table->cell_capacity, sizeof *table->cells);
    }
    int column = table->cell_count % table->count, width = text_width(cell);
    table->widths[column] = width > table->widths[column] ? width : table->widths[column];
    table->cells[table->cell_count++] = mem_copy_string(cell);
}

void table_add_int(struct table *table, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    table_add(table, text);
}

static void print_blanks(struct buf *out, int count) {
    for (int i = 0; i < count; i++) {
        buf_append_char(out, ' ');
    }
}

static void print_row(const struct table *table, struct buf *out, char *const *cells) {
    int owed = 0; /* blanks that are written only when something follows: no line ends with blanks */
    for (int i = 0; i < table->count; i++) {
        const char *cell = cells == NULL ? table->columns[i].title : cells[i];
        int pad = table->widths[i] - text_width(cell);
        int before = owed + (table->columns[i].right ? pad : 0);
        if (*cell != '\0') {
            print_blanks(out, before);
            text_show(out, cell, 0);
            before = 0;
        }
        owed = before + (table->columns[i].right ? 0 : pad) + GAP;
    }
    buf_append_char(out, '\n');
}

void table_print(struct table *table, struct buf *out) {
    REQUIRE(table->cell_count % table->count == 0);
    if (!table->headed && table->cell_count > 0) {
        print_row(table, out, NULL);
        table->headed = true;
    }
    for (int i = 0; i < table->cell_count; i += table->count) {
        print_row(table, out, table->cells + i);
    }
    for (int i = 0; i < table->cell_count; i++) {
        free(table->cells[i]);
    }
    table->cell_count = 0;
}

void table_finish(struct table *table) {
    for (int i = 0; i < table->cell_count; i++) {
        free(table->cells[i]);
    }
    free(table->cells);
    *table = (struct table){0};
}
