#include "sentence.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "utf8.h"

enum { WORD_MAX = 12, CLOSERS_MAX = 4 };

static bool is_blank(uint32_t code) {
    return code == ' ' || code == '\n';
}

/* Full stops of scripts that put no blank behind them, and of some that do. */
static bool is_full_stop(uint32_t code) {
    switch (code) {
    case 0x3002: /* ideographic */
    case 0xFF01: /* fullwidth ! . ? */
    case 0xFF0E:
    case 0xFF1F:
    case 0xFF61:
    case 0x0964: /* danda, double danda */
    case 0x0965:
    case 0x061F: /* Arabic ? and Urdu . */
    case 0x06D4:
    case 0x0589: /* Armenian */
    case 0x1362: /* Ethiopic */
    case 0x104B: /* Myanmar */
    case 0x17D4: /* Khmer */
        return true;
    default:
        return false;
    }
}

static bool is_closer(uint32_t code) {
    switch (code) {
    case '"':
    case '\'':
    case ')':
    case ']':
    case '}':
    case 0xBB: /* » */
    case 0x2018:
    case 0x2019:
    case 0x201C:
    case 0x201D:
    case 0x203A:
    case 0x3009: /* brackets of East Asian scripts */
    case 0x300B:
    case 0x300D:
    case 0x300F:
    case 0x3011:
    case 0xFF09:
    case 0xFF63:
        return true;
    default:
        return false;
    }
}

static bool is_lower(uint32_t code) {
    return (code >= 'a' && code <= 'z') || (code >= 0xDF && code <= 0xFF && code != 0xF7) ||
           (code >= 0x430 && code <= 0x45F) || (code >= 0x3AC && code <= 0x3CE);
}

static bool is_digit(uint32_t code) {
    return code >= '0' && code <= '9';
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           ((unsigned char)c & 0x80) != 0 || c == '.';
}

/* Words that a name, a number or a reference follows, so that a capital letter behind their stop
 * means nothing. Others, like "etc.", end a sentence when a capital follows. */
static bool is_abbreviation(const char *word, size_t length) {
    static const char *const list[] = {
        "mr",   "mrs",  "ms",   "dr",   "prof", "st",  "sr",  "jr",     "rev", "gen",  "col",
        "sgt",  "capt", "lt",   "gov",  "sen",  "rep", "hon", "messrs", "mme", "mlle", "vs",
        "cf",   "e.g",  "i.e",  "eg",   "ie",   "viz", "fig", "figs",   "eq",  "eqs",  "sec",
        "sect", "ch",   "chap", "vol",  "vols", "pp",  "ed",  "eds",    "ref", "refs", "approx",
        "ca",   "est",  "dept", "univ", "z.b",  "d.h", "u.a", "bzw",    "vgl", "nr",   "abs",
        "art",  "abb",  "tab",  "bd",   "kap",  "hr",  "fr",  "hrsg",
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (strlen(list[i]) == length && strncasecmp(word, list[i], length) == 0) {
            return true;
        }
    }
    return false;
}

/* "U.S", "z.B": letters with stops between them. "5.4", "12": numbers of sections, ordinals; years
 * are longer. */
static bool is_dotted_or_ordinal(const char *word, size_t length) {
    size_t digits = 0, dots = 0, run = 0, longest = 0;
    for (size_t i = 0; i < length; i++) {
        digits += is_digit((unsigned char)word[i]);
        dots += word[i] == '.';
        run = word[i] == '.' ? 0 : run + 1;
        longest = run > longest ? run : longest;
    }
    if (digits > 0 && digits + dots == length) {
        return dots > 0 || length <= 2;
    }
    return dots > 0 && longest == 1;
}

/* The word that ends before the full stop at `stop` keeps its stop for itself. `next` is what
 * follows the blank. */
static bool is_stop_of_word(const char *text, size_t stop, uint32_t next) {
    size_t start = stop;
    while (start > 0 && stop - start <= WORD_MAX && is_word(text[start - 1])) {
        start--;
    }
    const char *word = text + start;
    size_t length = stop - start;
    if (length == 0 || length > WORD_MAX) {
        return false;
    }
    if (is_digit(next) &&
        ((length == 2 && strncasecmp(word, "no", 2) == 0) || (length <= 2 && word[0] == 'p'))) {
        return true; /* "No. 7", "p. 12" */
    }
    if (is_dotted_or_ordinal(word, length) || is_abbreviation(word, length)) {
        return true;
    }
    /* An initial; but "I" and small letters may end a sentence. */
    uint32_t first = 0;
    return utf8_decode(word, length, &first) == length && !is_lower(first) && first != 'I';
}

bool sentence_ends(const char *text, size_t length, size_t at) {
    if (at == 0 || at >= length) {
        return at == length && at > 0;
    }
    uint32_t next = 0;
    utf8_decode(text + at, length - at, &next);
    size_t border = at;
    uint32_t last = utf8_before(text, &border);
    for (int closers = 0; is_closer(last) && closers < CLOSERS_MAX && border > 0; closers++) {
        last = utf8_before(text, &border);
    }
    if (is_full_stop(last)) {
        /* All that closes belongs to the sentence, and so do more stops ("?!"). */
        return !is_closer(next) && !is_full_stop(next);
    }
    if ((last != '.' && last != '!' && last != '?' && last != 0x2026) || !is_blank(next)) {
        return false;
    }
    uint32_t after = next;
    for (size_t i = at; is_blank(after) && i < length;) {
        size_t width = utf8_decode(text + i, length - i, &after);
        if (width == 0) {
            break;
        }
        i += width;
    }
    if (is_lower(after)) {
        return false;
    }
    return last != '.' || !is_stop_of_word(text, border, after);
}
