/* files_payload.c - an entry as the JSON that its handler gets. Raw bytes of a path that JSON text
 * cannot carry are escaped; all else goes through unchanged, so that most handlers need no
 * unescaping. */
#include "source/files.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

static void append_json_string(struct buf *out, const char *text) {
    buf_append_char(out, '"');
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\') {
            buf_append_char(out, '\\');
            buf_append_char(out, *text);
        } else if (byte < 0x20) {
            buf_append_format(out, "\\u%04x", byte);
        } else {
            buf_append_char(out, *text);
        }
    }
    buf_append_char(out, '"');
}

void files_payload(struct buf *out, const struct files_entry *entry) {
    size_t length = strlen(entry->path);
    bool escaped = !utf8_is_valid(entry->path, length);
    buf_append_string(out, "{\"path\": ");
    if (escaped) {
        struct buf name;
        buf_init(&name, 3 * length);
        utf8_escape_name(&name, entry->path, length);
        append_json_string(out, name.data);
        buf_finish(&name);
    } else {
        append_json_string(out, entry->path);
    }
    buf_append_format(out,
                      ", \"size\": %" PRId64 ", \"mtime_ns\": %" PRId64 ", \"inode\": %" PRId64,
                      entry->size_bytes, entry->mtime_ns, entry->inode);
    buf_append_string(out, escaped ? ", \"escaped\": true}" : "}");
}
