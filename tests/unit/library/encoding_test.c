/* Bytes of many encodings become UTF-8. */
#include "encoding.h"

#include <criterion/criterion.h>
#include <string.h>

#include "utf8.h"

TestSuite(library_encoding, .timeout = 10);

#define BYTES(literal) literal, sizeof(literal) - 1

static const struct {
    const char *what, *bytes;
    size_t length;
    bool declares;
    const char *expected;
} cases[] = {
    {"ASCII", BYTES("plain"), false, "plain"},
    {"UTF-8", BYTES("na\xC3\xAFve \xE6\x97\xA5 \xF0\x9F\x98\x80"), false,
     "na\xC3\xAFve \xE6\x97\xA5 \xF0\x9F\x98\x80"},
    {"UTF-8 with mark", BYTES("\xEF\xBB\xBFx\xC3\xA4"), false, "x\xC3\xA4"},
    {"UTF-16LE",
     BYTES("\xFF\xFE"
           "a\0\xE4\0\x3D\xD8\x00\xDE"),
     false, "a\xC3\xA4\xF0\x9F\x98\x80"},
    {"UTF-16BE", BYTES("\xFE\xFF\0a\0\xE4\xD8\x3D\xDE\x00"), false, "a\xC3\xA4\xF0\x9F\x98\x80"},
    {"UTF-16 with half a pair",
     BYTES("\xFF\xFE\x3D\xD8"
           "a\0"),
     false,
     "\xEF\xBF\xBD"
     "a"},
    {"UTF-16 with the other half",
     BYTES("\xFF\xFE\x00\xDE"
           "a\0"),
     false,
     "\xEF\xBF\xBD"
     "a"},
    {"UTF-16 that ends with half a pair",
     BYTES("\xFF\xFE"
           "a\0\x3D\xD8"),
     false, "a\xEF\xBF\xBD"},
    {"UTF-16 of an odd length",
     BYTES("\xFF\xFE"
           "a\0b"),
     false, "a\xEF\xBF\xBD"},
    {"nothing but a mark", BYTES("\xFF\xFE"), false, ""},
    {"Windows-1252", BYTES("na\xEFve \x93quoted\x94 \x80"), false,
     "na\xC3\xAFve \xE2\x80\x9Cquoted\xE2\x80\x9D \xE2\x82\xAC"},
    {"one 0xFF", BYTES("a\xFF"), false, "a\xC3\xBF"},
    {"UTF-8 with a broken byte", BYTES("\xC3\xA4\xC3\xB6\xFF\xC3\xBC"), false,
     "\xC3\xA4\xC3\xB6\xEF\xBF\xBD\xC3\xBC"},
    {"UTF-8 cut off", BYTES("\xC3\xA4\xC3\xB6\xE6\x97"), false,
     "\xC3\xA4\xC3\xB6\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"overlong slash and a surrogate",
     BYTES("\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC0\xAF\xED\xA0\x80"), false,
     "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF"
     "\xBF"
     "\xBD"},
    {"meta charset", BYTES("<meta charset=\"iso-8859-2\">\xB1"), true,
     "<meta charset=\"iso-8859-2\">\xC4\x85"},
    {"meta http-equiv",
     BYTES("<META HTTP-EQUIV='Content-Type' CONTENT='text/html; charset=KOI8-R'>\xC1"), true,
     "<META HTTP-EQUIV='Content-Type' CONTENT='text/html; charset=KOI8-R'>\xD0\xB0"},
    {"Latin-1 means Windows-1252", BYTES("<meta charset=ISO-8859-1>\x80"), true,
     "<meta charset=ISO-8859-1>\xE2\x82\xAC"},
    {"Shift JIS", BYTES("<meta charset=shift_jis>\x93\xFA\x96\x7B"), true,
     "<meta charset=shift_jis>\xE6\x97\xA5\xE6\x9C\xAC"},
    {"Shift JIS with a broken byte", BYTES("<meta charset=shift_jis>\xFF\x93\xFA\x96"), true,
     "<meta charset=shift_jis>\xEF\xBF\xBD\xE6\x97\xA5\xEF\xBF\xBD"},
    {"XML declaration", BYTES("<?xml version='1.0' encoding='iso-8859-2'?>\xB1"), true,
     "<?xml version='1.0' encoding='iso-8859-2'?>\xC4\x85"},
    {"said to be UTF-8, and is not", BYTES("<meta charset=utf-8>\xE4h"), true,
     "<meta charset=utf-8>\xC3\xA4h"},
    {"said to be UTF-16, and is not", BYTES("<meta charset=utf-16>\xC3\xA4"), true,
     "<meta charset=utf-16>\xC3\xA4"},
    {"unknown name", BYTES("<meta charset=klingon>\xC3\xA4"), true,
     "<meta charset=klingon>\xC3\xA4"},
    {"a declaration in plain text", BYTES("<meta charset=iso-8859-2>\xE4"), false,
     "<meta charset=iso-8859-2>\xC3\xA4"},
    {"a mark counts more", BYTES("\xEF\xBB\xBF<meta charset=iso-8859-2>\xC3\xA4"), true,
     "<meta charset=iso-8859-2>\xC3\xA4"},
};

Test(library_encoding, becomes_utf8) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text out;
        text_init(&out, 10000);
        encoding_to_utf8(cases[i].bytes, cases[i].length, cases[i].declares, &out);
        cr_expect_str_eq(text_string(&out), cases[i].expected, "%s: %s", cases[i].what,
                         text_string(&out));
        cr_expect_eq(utf8_measure(text_string(&out), out.length).invalid, 0);
        text_finish(&out);
    }
}

static void expect_declared(const char *page, const char *expected) {
    char name[ENCODING_NAME_MAX + 1];
    encoding_declared(page, strlen(page), name);
    cr_expect_str_eq(name, expected, "%s: %s", page, name);
}

Test(library_encoding, finds_declarations) {
    expect_declared("<meta charset = 'UTF-8' >", "utf-8");
    expect_declared("<html><head><meta name=x><meta charset=gbk>", "gbk");
    expect_declared("<!-- <meta charset=gbk> --><meta charset=big5>", "big5");
    expect_declared("<!-- <meta charset=gbk>", "");
    expect_declared("<metal charset=gbk>", "");
    expect_declared("<meta charset>", "");
    expect_declared("<meta charset=", "");
    expect_declared("<meta charset=\"\">", "");
    expect_declared("<meta", "");
    expect_declared("<", "");
    expect_declared("", "");
    /* What could be more than a name does not reach iconv. */
    expect_declared("<meta charset='utf-8//TRANSLIT'>", "utf-8");
    expect_declared("<meta charset='../../x'>", "..");
}

Test(library_encoding, utf16_is_known_by_its_mark) {
    cr_assert(encoding_is_utf16("\xFF\xFE", 2));
    cr_assert(encoding_is_utf16("\xFE\xFF"
                                "a",
                                3));
    cr_assert_not(encoding_is_utf16("\xFF", 1));
    cr_assert_not(encoding_is_utf16("", 0));
}

/* Every code point, there and back; and no sequence that is not well-formed. */
Test(library_encoding, utf8_is_strict) {
    for (uint32_t code = 1; code <= 0x10FFFF; code++) {
        char bytes[4];
        uint32_t back = 0;
        size_t length = utf8_encode(code, bytes);
        cr_assert_eq(utf8_decode(bytes, length, &back), length);
        bool surrogate = code >= 0xD800 && code <= 0xDFFF;
        cr_assert_eq(back, surrogate ? UTF8_REPLACEMENT : code);
        cr_assert(length == 1 || utf8_decode(bytes, length - 1, &back) == 0);
    }
    static const char *const wrong[] = {"\x80",
                                        "\xC0\x80",
                                        "\xC1\xBF",
                                        "\xE0\x9F\xBF",
                                        "\xED\xA0\x80",
                                        "\xF0\x8F\xBF\xBF",
                                        "\xF5\x80\x80\x80",
                                        "\xF4\x90\x80\x80",
                                        "\xC3(",
                                        "\xFF"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint32_t code;
        cr_expect_eq(utf8_decode(wrong[i], strlen(wrong[i]), &code), 0);
    }
}
