#include "clean.h"

#include <string.h>

#include "utf8.h"

enum kind { KIND_VISIBLE, KIND_DROPPED, KIND_BLANK, KIND_LINE, KIND_PARAGRAPH };

static bool within(uint32_t code, uint32_t low, uint32_t high) {
    return code >= low && code <= high;
}

static enum kind kind_above_ascii(uint32_t code) {
    if (code == 0x85 || code == 0x2028) {
        return KIND_LINE;
    }
    if (code == 0x2029) {
        return KIND_PARAGRAPH;
    }
    if (code == 0xA0 || code == 0x1680 || within(code, 0x2000, 0x200A) || code == 0x202F ||
        code == 0x205F || code == 0x3000) {
        return KIND_BLANK;
    }
    /* 200C and 200D, the joiners, are part of how words are written and stay. */
    if (within(code, 0x80, 0x9F) || code == 0xAD || code == 0x200B || code == 0x200E ||
        code == 0x200F || within(code, 0x202A, 0x202E) || within(code, 0x2060, 0x206F) ||
        code == 0xFEFF || within(code, 0xFFF9, 0xFFFB) || within(code, 0xFDD0, 0xFDEF) ||
        (code & 0xFFFE) == 0xFFFE) {
        return KIND_DROPPED;
    }
    return KIND_VISIBLE;
}

static enum kind kind_of(uint32_t code) {
    switch (code) {
    case ' ':
    case '\t':
        return KIND_BLANK;
    case '\n':
    case '\r':
    case '\v':
        return KIND_LINE;
    case '\f':
        return KIND_PARAGRAPH;
    default:
        break;
    }
    if (code < 0x20 || code == 0x7F) {
        return KIND_DROPPED;
    }
    return code < 0x7F ? KIND_VISIBLE : kind_above_ascii(code);
}

void cleaner_init(struct cleaner *cleaner, struct text *out) {
    *cleaner = (struct cleaner){.out = out};
}

void cleaner_blank(struct cleaner *cleaner) {
    cleaner->space = true;
}

void cleaner_break(struct cleaner *cleaner, int newlines) {
    if (cleaner->newlines < newlines) {
        cleaner->newlines = newlines;
    }
}

static void add_line_end(struct cleaner *cleaner, bool keep_lines) {
    if (!keep_lines) {
        cleaner->space = true;
    } else if (cleaner->newlines < 2) {
        cleaner->newlines++;
    }
}

static void add_visible(struct cleaner *cleaner, const char *bytes, size_t length) {
    if (cleaner->out->length > 0) {
        if (cleaner->newlines > 0) {
            text_append(cleaner->out, "\n\n", (size_t)cleaner->newlines);
        } else if (cleaner->space) {
            text_append_char(cleaner->out, ' ');
        }
    }
    cleaner->newlines = 0;
    cleaner->space = false;
    text_append(cleaner->out, bytes, length);
}

void cleaner_add(struct cleaner *cleaner, const char *bytes, size_t length, bool keep_lines) {
    for (size_t i = 0; i < length;) {
        uint32_t code = 0;
        size_t taken = utf8_decode(bytes + i, length - i, &code);
        if (taken == 0) { /* not what was promised: dropped */
            i++;
            continue;
        }
        bool second_half = code == '\n' && cleaner->after_return;
        cleaner->after_return = code == '\r';
        switch (kind_of(code)) {
        case KIND_VISIBLE:
            add_visible(cleaner, bytes + i, taken);
            break;
        case KIND_DROPPED:
            break;
        case KIND_BLANK:
            cleaner->space = true;
            break;
        case KIND_LINE:
            if (!second_half) {
                add_line_end(cleaner, keep_lines);
            }
            break;
        case KIND_PARAGRAPH:
            if (keep_lines) {
                cleaner_break(cleaner, 2);
            } else {
                cleaner->space = true;
            }
            break;
        }
        i += taken;
    }
}

void clean_text(const char *bytes, size_t length, struct text *out) {
    struct cleaner cleaner;
    cleaner_init(&cleaner, out);
    cleaner_add(&cleaner, bytes, length, true);
}

void clean_line(const char *bytes, size_t length, size_t max_bytes, struct text *out) {
    static const char ellipsis[] = "\xE2\x80\xA6";
    struct text line;
    text_init(&line, length);
    struct cleaner cleaner;
    cleaner_init(&cleaner, &line);
    cleaner_add(&cleaner, bytes, length, false);
    if (line.length <= max_bytes) {
        text_append(out, text_string(&line), line.length);
    } else {
        size_t cut = max_bytes - (sizeof ellipsis - 1);
        while (cut > 0 && ((unsigned char)line.data[cut] & 0xC0) == 0x80) {
            cut--;
        }
        text_append(out, line.data, cut);
        text_append(out, ellipsis, sizeof ellipsis - 1);
    }
    if (line.state == TEXT_NO_MEMORY) {
        out->state = TEXT_NO_MEMORY;
    }
    text_finish(&line);
}
