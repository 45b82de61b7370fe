#include "chunker.h"

#include <stdint.h>

#include "sentence.h"
#include "utf8.h"

/* The last place of each kind within reach at which a piece could end; offset 0 means there is
 * none. */
struct cuts {
    size_t paragraph, sentence, line, word, anywhere;
    size_t paragraph_chars, sentence_chars, line_chars; /* characters before it */
};

static bool is_blank(uint32_t code) {
    return code == ' ' || code == '\n';
}

/* What belongs to the character before it. */
static bool is_attached(uint32_t code) {
    return (code >= 0x300 && code <= 0x36F) || (code >= 0x1AB0 && code <= 0x1AFF) ||
           (code >= 0x20D0 && code <= 0x20FF) || (code >= 0xFE00 && code <= 0xFE0F) ||
           (code >= 0x1F3FB && code <= 0x1F3FF) || code == 0x200C || code == 0x200D;
}

void chunker_init(struct chunker *chunker, const char *text, size_t length, size_t size,
                  size_t overlap) {
    *chunker = (struct chunker){.text = text, .length = length, .size = size, .overlap = overlap};
    while (chunker->next < length && is_blank((unsigned char)text[chunker->next])) {
        chunker->next++;
    }
}

/* Notes what could end before `at`, `chars` characters from the beginning. `before` and `code` are
 * the characters around it. */
static void note_cuts(const struct chunker *chunker, struct cuts *cuts, size_t at, size_t chars,
                      uint32_t before, uint32_t code) {
    if (!is_blank(before) && !is_attached(code) && before != 0x200D) {
        cuts->anywhere = at;
    }
    if (is_blank(code) && !is_blank(before)) {
        cuts->word = at;
        if (code == '\n') {
            bool paragraph = at + 1 < chunker->length && chunker->text[at + 1] == '\n';
            cuts->paragraph = paragraph ? at : cuts->paragraph;
            cuts->paragraph_chars = paragraph ? chars : cuts->paragraph_chars;
            cuts->line = at;
            cuts->line_chars = chars;
        }
    }
    if (!is_blank(before) && sentence_ends(chunker->text, chunker->length, at)) {
        cuts->sentence = at;
        cuts->sentence_chars = chars;
    }
}

/* A better border is worth a shorter piece, within reason. */
static size_t choose(const struct cuts *cuts, size_t size) {
    if (cuts->paragraph_chars * 2 >= size) {
        return cuts->paragraph;
    }
    if (cuts->sentence_chars * 4 >= size) {
        return cuts->sentence;
    }
    if (cuts->line_chars * 2 >= size) {
        return cuts->line;
    }
    return cuts->word > 0 ? cuts->word : cuts->anywhere;
}

/* Where the piece that begins at `start` ends: behind what is covered, so that each brings
 * something new. */
static size_t find_end(const struct chunker *chunker, size_t start) {
    struct cuts cuts = {0};
    size_t at = start;
    uint32_t before = 0, code = 0;
    for (size_t chars = 0; chars <= chunker->size; chars++) {
        size_t taken = utf8_decode(chunker->text + at, chunker->length - at, &code);
        if (taken == 0) {
            return chunker->length; /* the end of the text is within reach */
        }
        if (at > start && at > chunker->covered) {
            note_cuts(chunker, &cuts, at, chars, before, code);
        }
        if (chars == chunker->size) {
            break;
        }
        before = code;
        at += taken;
    }
    size_t end = choose(&cuts, chunker->size);
    return end > start ? end : at; /* nothing but marks: cut all the same */
}

static size_t skip_blanks(const struct chunker *chunker, size_t at) {
    while (at < chunker->length && is_blank((unsigned char)chunker->text[at])) {
        at++;
    }
    return at;
}

/* Goes back from `end` by at most `overlap` characters, to the first beginning of a sentence there,
 * or else of a word. */
static size_t find_overlap(const struct chunker *chunker, size_t start, size_t end) {
    size_t at = end, sentence = end, word = end;
    for (size_t chars = 0; chars < chunker->overlap && at > start; chars++) {
        uint32_t code = utf8_before(chunker->text, &at);
        if (is_blank(code) || at <= start) {
            continue;
        }
        size_t border = at;
        bool begins_word = is_blank(utf8_before(chunker->text, &border));
        if (begins_word) {
            word = at;
            while (border > start && is_blank((unsigned char)chunker->text[border - 1])) {
                border--;
            }
        } else {
            border = at;
        }
        if (sentence_ends(chunker->text, chunker->length, border)) {
            sentence = at;
        }
    }
    return sentence < end ? sentence : word;
}

/* Where the piece after this one begins; `after` is the first visible character behind it. */
static size_t next_start(const struct chunker *chunker, size_t start, size_t end, size_t after) {
    if (chunker->overlap == 0 || after >= chunker->length) {
        return after;
    }
    size_t next = find_overlap(chunker, start, end);
    return next < end ? next : after;
}

bool chunker_next(struct chunker *chunker, const char **piece, size_t *length) {
    while (chunker->next < chunker->length) {
        size_t start = chunker->next;
        size_t end = find_end(chunker, start);
        size_t after = skip_blanks(chunker, end);
        while (end > start && is_blank((unsigned char)chunker->text[end - 1])) {
            end--;
        }
        if (end <= chunker->covered) { /* nothing but blanks were within reach */
            chunker->next = after;
            continue;
        }
        chunker->next = next_start(chunker, start, end, after);
        chunker->covered = end;
        *piece = chunker->text + start;
        *length = end - start;
        return true;
    }
    return false;
}
