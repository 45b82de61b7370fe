/* note.h - fields that a handler gave a log line, as the log writes them. When: any thread. */
#ifndef WORKERS_NOTE_H
#define WORKERS_NOTE_H

#include <stddef.h>

#include "base/buf.h"

/* Appends " key=value" for each field of the JSON object `fields`; " fields=..." with the text as it is for anything else. A
 * key that means something in the line already gets a '_' in front; what a key may not hold becomes '_'. */
void note_put_fields(struct buf *out, const char *fields, size_t length);

#endif
