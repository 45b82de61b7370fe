/* require.c - the end of a process whose own invariant does not hold. */
#include "base/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Neither stdio's locks nor the log are used: the broken invariant may be theirs. */
void require_failed(const char *what, const char *file, int line) {
    char text[512];
    int length =
        snprintf(text, sizeof text, "pgstage: %s:%d: requirement failed: %s\n", file, line, what);
    if (length > 0) {
        size_t size = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
        ssize_t written = write(STDERR_FILENO, text, size);
        (void)written;
    }
    abort();
}
