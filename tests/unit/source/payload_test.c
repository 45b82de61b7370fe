/* What a handler gets for an entry. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "source/files.h"

TestSuite(payload, .timeout = 10);

static void expect(const char *path, const char *json) {
    struct files_entry entry = {
        .key = "k", .path = path, .size_bytes = 5, .mtime_ns = -7, .inode = 9};
    struct buf out;
    buf_init(&out, 4096);
    files_payload(&out, &entry);
    cr_assert_str_eq(out.data, json);
    json_error_t error;
    json_t *value = json_loads(out.data, 0, &error);
    cr_assert_not_null(value, "%s", error.text);
    if (json_object_get(value, "escaped") == NULL) {
        cr_assert_str_eq(json_string_value(json_object_get(value, "path")), path);
    }
    json_decref(value);
    buf_finish(&out);
}

Test(payload, is_json) {
    expect("/a/b.txt", "{\"path\": \"/a/b.txt\", \"size\": 5, \"mtime_ns\": -7, \"inode\": 9}");
}

Test(payload, carries_text_as_it_is) {
    expect("/\xC3\xA4 100%", "{\"path\": \"/\xC3\xA4 100%\", \"size\": 5, \"mtime_ns\": -7, "
                             "\"inode\": 9}");
    expect("/a\nb\"c\\d\x7F",
           "{\"path\": \"/a\\u000ab\\\"c\\\\d\x7F\", \"size\": 5, \"mtime_ns\": -7, \"inode\": 9}");
}

Test(payload, escapes_what_is_not_text) {
    expect("/a\xFF"
           "b%\"\n",
           "{\"path\": \"/a%FFb%25\\\"%0A\", \"size\": 5, \"mtime_ns\": -7, "
           "\"inode\": 9, \"escaped\": true}");
}

Test(payload, is_appended) {
    struct files_entry entry = {.key = "k", .path = "/x"};
    struct buf out;
    buf_init(&out, 4096);
    buf_append_string(&out, "[");
    files_payload(&out, &entry);
    cr_assert_eq(strncmp(out.data, "[{", 2), 0);
    buf_finish(&out);
}
