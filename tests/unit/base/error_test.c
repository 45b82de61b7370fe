#include "base/error.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/utf8.h"

TestSuite(error, .timeout = 10);

Test(error, set_keeps_code_and_text) {
    struct error err = ERROR_NONE;
    cr_expect_eq(error_set(&err, STATUS_LIMIT, "%d of %s", 3, "many"), STATUS_LIMIT);
    cr_expect_eq(err.code, STATUS_LIMIT);
    cr_expect_str_eq(err.text, "3 of many");
}

Test(error, first_error_wins_and_the_later_code_is_returned) {
    struct error err = ERROR_NONE;
    error_set(&err, STATUS_TIMEOUT, "first");
    cr_expect_eq(error_set(&err, STATUS_INVALID, "second"), STATUS_INVALID);
    cr_expect_eq(error_set_errno(&err, STATUS_INTERNAL, ENOENT, "third"), STATUS_INTERNAL);
    cr_expect_eq(err.code, STATUS_TIMEOUT);
    cr_expect_str_eq(err.text, "first");
}

Test(error, set_leaves_the_position_of_a_configuration_error) {
    struct error err = {.file = "a.yaml", .line = 3, .column = 7, .sqlstate = "40001"};
    error_set(&err, STATUS_INVALID, "x");
    error_wrap(&err, "y");
    cr_expect_str_eq(err.file, "a.yaml");
    cr_expect_eq(err.line, 3);
    cr_expect_eq(err.column, 7);
    cr_expect_str_eq(err.sqlstate, "40001");
}

Test(error, set_errno_appends_the_reason) {
    struct error err = ERROR_NONE;
    cr_expect_eq(error_set_errno(&err, STATUS_NOT_FOUND, ENOENT, "open %s", "a"), STATUS_NOT_FOUND);
    cr_expect_str_eq(err.text, "open a: No such file or directory");
}

Test(error, set_errno_gives_text_to_an_unknown_number) {
    struct error err = ERROR_NONE;
    error_set_errno(&err, STATUS_INTERNAL, 99999, "call");
    cr_expect_str_eq(err.text, "call: Unknown error 99999");
}

Test(error, wrap_puts_context_in_front) {
    struct error err = ERROR_NONE;
    error_set(&err, STATUS_INVALID, "no such handler");
    cr_expect_eq(error_wrap(&err, "stage '%s'", "resize"), STATUS_INVALID);
    cr_expect_eq(error_wrap(&err, "pipeline '%s'", "scan"), STATUS_INVALID);
    cr_expect_str_eq(err.text, "pipeline 'scan': stage 'resize': no such handler");
}

Test(error, wrap_may_use_the_error_itself) {
    struct error err = ERROR_NONE;
    error_set(&err, STATUS_INVALID, "a");
    error_wrap(&err, "%s", err.text);
    cr_expect_str_eq(err.text, "a: a");
}

Test(error, wrap_of_success_does_nothing) {
    struct error err = ERROR_NONE;
    cr_expect_eq(error_wrap(&err, "context"), STATUS_OK);
    cr_expect_str_eq(err.text, "");
}

Test(error, null_returns_the_code_alone) {
    cr_expect_eq(error_set(NULL, STATUS_LIMIT, "x"), STATUS_LIMIT);
    cr_expect_eq(error_set_errno(NULL, STATUS_LIMIT, EIO, "x"), STATUS_LIMIT);
    cr_expect_neq(error_wrap(NULL, "x"), STATUS_OK, "a failure must not read as success");
    error_clear(NULL);
}

Test(error, clear_forgets_all) {
    struct error err = {.file = "a.yaml", .line = 3};
    error_set(&err, STATUS_LIMIT, "x");
    error_clear(&err);
    cr_expect_eq(err.code, STATUS_OK);
    cr_expect_null(err.file);
    cr_expect_str_eq(err.text, "");
    error_set(&err, STATUS_INVALID, "y");
    cr_expect_str_eq(err.text, "y");
}

/* Shifts a text of multi-byte characters over the limit byte by byte: no shift may leave half a
 * character. */
Test(error, long_text_is_cut_at_a_character) {
    static const char *const characters[] = {"\xC3\xBC", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    for (size_t c = 0; c < sizeof characters / sizeof characters[0]; c++) {
        for (size_t shift = 0; shift < 4; shift++) {
            char text[2 * ERROR_TEXT_MAX] = "xxxx";
            for (size_t at = shift; at < ERROR_TEXT_MAX + 8; at += strlen(characters[c])) {
                strcpy(text + at, characters[c]);
            }
            struct error err = ERROR_NONE;
            error_set(&err, STATUS_LIMIT, "%s", text);
            cr_expect(utf8_is_valid(err.text, strlen(err.text)), "%zu/%zu", c, shift);
            cr_expect_geq(strlen(err.text), (size_t)ERROR_TEXT_MAX - 4);
            error_wrap(&err, "ctx");
            cr_expect(utf8_is_valid(err.text, strlen(err.text)), "%zu/%zu", c, shift);
            cr_expect_eq(strncmp(err.text, "ctx: ", 5), 0);
        }
    }
}
