/* Where sentences end. In the cases a '|' marks each end. */
#include "sentence.h"

#include <criterion/criterion.h>
#include <string.h>

#include "utf8.h"

TestSuite(library_sentence, .timeout = 10);

static const char *const cases[] = {
    "No stop at all|",
    "It ends.| It does.|",
    "He asked \"why?\"| She left.|",
    "(In brackets.)| After.|",
    "Really?!| Yes\xE2\x80\xA6| Well.|",
    "Version 3.14 is out.| Good.|",
    "See example.org for more.| Thanks.|",
    "Dr. Smith met Mrs. Jones.| They spoke.|",
    "Use e.g. PostgreSQL, i.e. a database.| Fine.|",
    "cf. Fig. 3 and No. 7 on p. 123.| Next.|",
    "J. R. R. Tolkien wrote it.| He did.|",
    "The U.S. Army came.| It left.|",
    "Bread, milk, etc. were there.| Good.|",
    "Bread, milk, etc.| Then we left.|",
    "Am 3. Mai war es z.B. warm.| Gut.|",
    "1. Open the file.| 2. Close it.|",
    "5.4. Constraints|",
    "It was in 2020.| Then came more.|",
    "\xE4\xB8\x80\xE3\x80\x82|\xE4\xBA\x8C\xEF\xBC\x81|\xE4\xB8\x89\xE3\x80\x82\xE3\x80\x8D|"
    "\xE5\x9B\x9B|",
    "\xE0\xA4\x8F\xE0\xA4\x95\xE0\xA5\xA4| \xE0\xA4\xA6|",
    "a sentence. that goes on.|",
    "Line one.|\nLine two.|",
    "Paragraph.|\n\nNext.|",
    "So am I.| You too.|",
    "...| Then.|",
    ".|",
};

Test(library_sentence, ends_where_a_reader_sees_it) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200], marked[200];
        size_t length = 0;
        for (const char *at = cases[i]; *at != '\0'; at++) {
            if (*at != '|') {
                text[length++] = *at;
            }
        }
        text[length] = '\0';
        size_t out = 0, chars;
        for (size_t at = 0; at <= length; at += chars) {
            if (sentence_ends(text, length, at)) {
                marked[out++] = '|';
            }
            uint32_t code;
            chars = at == length ? 1 : utf8_decode(text + at, length - at, &code);
            if (at < length) {
                memcpy(marked + out, text + at, chars);
                out += chars;
            }
        }
        marked[out] = '\0';
        cr_expect_str_eq(marked, cases[i]);
    }
}
