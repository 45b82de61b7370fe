/* Chunks: what holds for every text, and where cuts fall. */
#include "chunker.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "utf8.h"

TestSuite(library_chunker, .timeout = 60);

static size_t count_chars(const char *text, size_t length) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return count;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\n';
}

/* All that is promised of every cutting. Returns the number of pieces. */
static size_t check(const char *text, size_t length, size_t size, size_t overlap) {
    struct chunker chunker;
    chunker_init(&chunker, text, length, size, overlap);
    const char *piece = NULL;
    size_t piece_length = 0, count = 0, covered = 0, started = 0;
    while (chunker_next(&chunker, &piece, &piece_length)) {
        size_t start = (size_t)(piece - text), end = start + piece_length;
        cr_assert_gt(piece_length, 0);
        cr_assert_leq(count_chars(piece, piece_length), size);
        cr_assert_eq(utf8_measure(piece, piece_length).invalid, 0, "cut inside a character");
        cr_assert(!is_blank(piece[0]) && !is_blank(piece[piece_length - 1]));
        /* Only blanks are left out, and each piece goes on behind the one before. */
        for (size_t i = covered; i < start; i++) {
            cr_assert(is_blank(text[i]));
        }
        cr_assert_gt(end, covered);
        cr_assert(count == 0 || start > started);
        cr_assert(overlap > 0 || start >= covered);
        if (start < covered) {
            cr_assert_leq(count_chars(text + start, covered - start), overlap);
        }
        covered = end;
        started = start;
        count++;
    }
    for (size_t i = covered; i < length; i++) {
        cr_assert(is_blank(text[i]));
    }
    return count;
}

static void expect_pieces(const char *text, size_t size, size_t overlap,
                          const char *const *pieces) {
    struct chunker chunker;
    chunker_init(&chunker, text, strlen(text), size, overlap);
    const char *piece;
    size_t length;
    while (chunker_next(&chunker, &piece, &length)) {
        cr_assert_not_null(*pieces, "one too many: '%.*s'", (int)length, piece);
        char copy[512];
        snprintf(copy, sizeof copy, "%.*s", (int)length, piece);
        cr_assert_str_eq(copy, *pieces);
        pieces++;
    }
    cr_assert_null(*pieces);
}

#define PIECES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NO_PIECES ((const char *const[]){NULL})

Test(library_chunker, short_texts_are_one_piece) {
    expect_pieces("", 20, 0, NO_PIECES);
    expect_pieces(" \n\n ", 20, 0, NO_PIECES);
    expect_pieces("a", 20, 0, PIECES("a"));
    expect_pieces(" a b \n", 20, 0, PIECES("a b"));
    expect_pieces("exactly twenty chars", 20, 0, PIECES("exactly twenty chars"));
    expect_pieces(
        "a\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4 \xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4 \xC3\xA4\xC3\xA4", 13,
        0,
        PIECES(
            "a\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4 \xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4 \xC3\xA4\xC3\xA4"));
}

Test(library_chunker, cuts_at_sentences_before_words) {
    expect_pieces("The first one. The second one goes on.", 30, 0,
                  PIECES("The first one.", "The second one goes on."));
    expect_pieces("Dr. Smith came in. He sat down at once.", 25, 0,
                  PIECES("Dr. Smith came in.", "He sat down at once."));
}

Test(library_chunker, cuts_at_paragraphs_before_sentences) {
    expect_pieces("First one. Second.\n\nThird. Fourth is here.", 34, 0,
                  PIECES("First one. Second.", "Third. Fourth is here."));
}

Test(library_chunker, a_paragraph_at_the_very_beginning_is_no_reason_to_cut) {
    expect_pieces("Head\n\nA long sentence stands here now. More.", 40, 0,
                  PIECES("Head\n\nA long sentence stands here now.", "More."));
}

Test(library_chunker, cuts_at_words_when_there_is_no_sentence) {
    expect_pieces("one two three four five six", 10, 0,
                  PIECES("one two", "three four", "five six"));
}

Test(library_chunker, cuts_long_words_between_characters) {
    expect_pieces("abcdefghijklmno", 6, 0, PIECES("abcdef", "ghijkl", "mno"));
    expect_pieces("\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4", 2, 0,
                  PIECES("\xC3\xA4\xC3\xA4", "\xC3\xA4\xC3\xA4", "\xC3\xA4"));
    /* Not between a letter and its marks: e and an acute accent. */
    expect_pieces("xxe\xCC\x81yy", 3, 0, PIECES("xx", "e\xCC\x81y", "y"));
}

Test(library_chunker, cuts_east_asian_text_at_its_full_stops) {
    expect_pieces("\xE4\xB8\x80\xE4\xB8\x80\xE3\x80\x82\xE4\xBA\x8C\xE4\xBA\x8C\xE3\x80\x82\xE4\xB8"
                  "\x89\xE4\xB8\x89",
                  7, 0,
                  PIECES("\xE4\xB8\x80\xE4\xB8\x80\xE3\x80\x82\xE4\xBA\x8C\xE4\xBA\x8C\xE3\x80\x82",
                         "\xE4\xB8\x89\xE4\xB8\x89"));
}

Test(library_chunker, overlap_repeats_sentences) {
    expect_pieces("First one here. Second one here. Third one here. Fourth.", 34, 17,
                  PIECES("First one here. Second one here.", "Second one here. Third one here.",
                         "Third one here. Fourth."));
}

Test(library_chunker, overlap_repeats_words_where_no_sentence_fits) {
    expect_pieces("one two three four five six seven", 14, 6,
                  PIECES("one two three", "three four", "four five six", "six seven"));
}

/* A piece made only of what was there before would never end. */
Test(library_chunker, overlap_always_brings_something_new) {
    char text[400] = "Aaa bbb. Ccc ddd. Eee fff. ";
    memset(text + strlen(text), 'x', 300);
    cr_assert_leq(check(text, strlen(text), 50, 25), 14);
}

static size_t make_noise(char *out, size_t length) {
    static const char *const parts[] = {"a",
                                        "word",
                                        " ",
                                        " ",
                                        "\n",
                                        "\n\n",
                                        ". ",
                                        ".",
                                        "Dr. ",
                                        "\xC3\xA4",
                                        "\xE3\x80\x82",
                                        "\xE6\x97\xA5",
                                        "\xF0\x9F\x98\x80",
                                        "\xCC\x81",
                                        "! ",
                                        "\"",
                                        ")",
                                        "1. ",
                                        "A",
                                        "unbreakablelongword"};
    size_t used = 0;
    for (;;) {
        const char *part = parts[(size_t)rand() % (sizeof parts / sizeof parts[0])];
        if (used + strlen(part) > length) {
            return used;
        }
        memcpy(out + used, part, strlen(part));
        used += strlen(part);
    }
}

Test(library_chunker, keeps_its_promises_for_any_text) {
    srand(11);
    for (int round = 0; round < 3000; round++) {
        char text[600];
        size_t length = make_noise(text, (size_t)rand() % sizeof text);
        size_t size = 1 + (size_t)rand() % 80;
        check(text, length, size, 0);
        check(text, length, size, size / 2);
        check(text, length, size, (size_t)rand() % (size / 2 + 1));
    }
}

Test(library_chunker, hostile_texts_take_linear_time) {
    enum { LENGTH = 4 * 1024 * 1024 };
    char *text = malloc(LENGTH);
    static const char *const fillings[] = {"x",        " ",  ".",  "\"",          ". ",
                                           "\xCC\x81", "a.", "\n", "\xE3\x80\x82"};
    for (size_t i = 0; i < sizeof fillings / sizeof fillings[0]; i++) {
        size_t width = strlen(fillings[i]), length = LENGTH / width * width;
        for (size_t at = 0; at < length; at++) {
            text[at] = fillings[i][at % width];
        }
        clock_t start = clock();
        struct chunker chunker;
        chunker_init(&chunker, text, length, 1200, 600);
        const char *piece;
        size_t piece_length;
        while (chunker_next(&chunker, &piece, &piece_length)) {
        }
        cr_expect_lt(clock() - start, 6 * CLOCKS_PER_SEC, "filled with '%s'", fillings[i]);
    }
    free(text);
}
