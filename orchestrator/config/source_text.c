/* source_text.c - an index of line starts; LF, CR LF and CR end a line, as libyaml and editors
 * have it. The other breaks of YAML 1.1 are refused as characters, so that nobody counts lines
 * differently. */
#include "config/source_text.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/require.h"
#include "base/utf8.h"

enum { NAME_SHOWN_BYTES = 1024 };

static const char byte_order_mark[] = "\xEF\xBB\xBF";

/* Calls of this with `starts` NULL only count. */
static int index_lines(const char *text, size_t length, uint32_t *starts) {
    int count = 0;
    size_t at = 0;
    do {
        if (starts != NULL) {
            starts[count] = (uint32_t)at;
        }
        count++;
        while (at < length && text[at] != '\n' && text[at] != '\r') {
            at++;
        }
        if (at < length && text[at] == '\r' && at + 1 < length && text[at + 1] == '\n') {
            at++;
        }
        at++;
    } while (at <= length);
    return count;
}

static bool begins_character(char byte) {
    return ((unsigned char)byte & 0xC0) != 0x80;
}

static void index_characters(struct source_text *source, struct arena *arena) {
    uint32_t count = 0;
    source->characters =
        arena_alloc(arena, (source->length / SOURCE_TEXT_STEP + 1) * sizeof(uint32_t));
    for (size_t i = 0; i < source->length; i++) {
        if (i % SOURCE_TEXT_STEP == 0) {
            source->characters[i / SOURCE_TEXT_STEP] = count;
        }
        count += begins_character(source->text[i]) ? 1 : 0;
    }
    if (source->length % SOURCE_TEXT_STEP == 0) {
        source->characters[source->length / SOURCE_TEXT_STEP] = count;
    }
}

void source_text_init(struct source_text *source, struct arena *arena, const char *name,
                      const char *text, size_t length) {
    REQUIRE(length < UINT32_MAX / 2);
    if (length >= 3 && memcmp(text, byte_order_mark, 3) == 0) {
        text += 3;
        length -= 3;
    }
    struct buf clean;
    buf_init(&clean, SIZE_MAX);
    utf8_sanitize(&clean, name, strlen(name), NAME_SHOWN_BYTES);
    for (size_t i = 0; i < clean.length; i++) {
        if (clean.data[i] == '\n' || clean.data[i] == '\t') {
            clean.data[i] = '?';
        }
    }
    *source = (struct source_text){
        .name = arena_copy(arena, clean.data, clean.length), .text = text, .length = length};
    buf_finish(&clean);
    source->line_count = index_lines(text, length, NULL);
    source->line_starts =
        arena_alloc(arena, (size_t)source->line_count * sizeof *source->line_starts);
    index_lines(text, length, source->line_starts);
    index_characters(source, arena);
}

void source_text_line(const struct source_text *source, int line, const char **start,
                      size_t *length) {
    size_t from = source->length, end = source->length;
    if (line >= 1 && line <= source->line_count) {
        from = source->line_starts[line - 1];
    }
    if (line >= 1 && line < source->line_count) {
        end = source->line_starts[line];
        while (end > from && (source->text[end - 1] == '\n' || source->text[end - 1] == '\r')) {
            end--;
        }
    }
    *start = source->text + from;
    *length = end - from;
}

static size_t characters_before(const struct source_text *source, size_t offset) {
    size_t step = offset / SOURCE_TEXT_STEP, count = source->characters[step];
    for (size_t i = step * SOURCE_TEXT_STEP; i < offset; i++) {
        count += begins_character(source->text[i]) ? 1 : 0;
    }
    return count;
}

struct position source_text_position(const struct source_text *source, size_t offset) {
    REQUIRE(offset <= source->length);
    int low = 0, high = source->line_count - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (source->line_starts[middle] <= offset) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    size_t column =
        characters_before(source, offset) - characters_before(source, source->line_starts[low]);
    return (struct position){low + 1, (int)column + 1};
}

size_t source_text_offset(const struct source_text *source, struct position at) {
    const char *start;
    size_t length;
    source_text_line(source, at.line, &start, &length);
    size_t i = (size_t)(start - source->text), end = i + length;
    size_t wanted = characters_before(source, i) + (size_t)(at.column > 1 ? at.column - 1 : 0);
    size_t low = i / SOURCE_TEXT_STEP + 1, high = end / SOURCE_TEXT_STEP;
    while (low <= high) {
        size_t middle = low + (high - low) / 2;
        if (source->characters[middle] <= wanted) {
            i = middle * SOURCE_TEXT_STEP;
            low = middle + 1;
        } else {
            high = middle - 1;
        }
    }
    for (size_t count = characters_before(source, i); i < end; i++) {
        if (begins_character(source->text[i]) && count++ == wanted) {
            return i;
        }
    }
    return end;
}

static uint32_t decode(const char *bytes, size_t count) {
    static const unsigned char lead_mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t value = (unsigned char)bytes[0] & lead_mask[count];
    for (size_t i = 1; i < count; i++) {
        value = value << 6 | ((unsigned char)bytes[i] & 0x3F);
    }
    return value;
}

static bool is_allowed(uint32_t character) {
    if (character < 0x20) {
        return character == '\t' || character == '\n' || character == '\r';
    }
    return !((character >= 0x7F && character <= 0x9F) || character == 0x2028 ||
             character == 0x2029 || character == 0xFEFF || character == 0xFFFE ||
             character == 0xFFFF);
}

static const char *escape_hint(struct arena *arena, uint32_t character) {
    if (character == 0) {
        return "no text of PostgreSQL can hold it";
    }
    return arena_format(arena, "in double quotes, \"\\u%04X\" stands for it", (unsigned)character);
}

bool source_text_fault(const struct source_text *source, struct arena *arena,
                       struct source_fault *fault) {
    size_t i = 0;
    while (i < source->length) {
        size_t taken = utf8_sequence(source->text + i, source->length - i);
        if (taken == 0) {
            *fault = (struct source_fault){
                .at = source_text_position(source, i),
                .message = arena_format(arena, "the byte 0x%02X is not UTF-8",
                                        (unsigned)(unsigned char)source->text[i]),
                .hint = "save the file as UTF-8 text"};
            return true;
        }
        uint32_t character = decode(source->text + i, taken);
        if (!is_allowed(character)) {
            *fault = (struct source_fault){
                .at = source_text_position(source, i),
                .message = arena_format(arena, "the character U+%04X cannot stand in a file",
                                        (unsigned)character),
                .hint = escape_hint(arena, character)};
            return true;
        }
        i += taken;
    }
    return false;
}
