#include "cli/pattern.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static bool convert(struct buf *like, const char *pattern) {
    bool any = false;
    for (const char *at = pattern; *at != '\0'; at++) {
        if (*at == '*' || *at == '?') {
            buf_append_char(like, *at == '*' ? '%' : '_');
            any = true;
            continue;
        }
        if (*at == '\\' && at[1] != '\0') {
            at++;
        }
        if (strchr("%_\\", *at) != NULL) {
            buf_append_char(like, '\\');
        }
        buf_append_char(like, *at);
    }
    return any;
}

void pattern_to_like(struct buf *like, const char *pattern) {
    convert(like, pattern);
}

void pattern_to_like_within(struct buf *like, const char *pattern) {
    struct buf converted;
    buf_init(&converted, SIZE_MAX);
    const char *around = convert(&converted, pattern) ? "" : "%";
    buf_append_format(like, "%s%s%s", around, converted.data, around);
    buf_finish(&converted);
}
