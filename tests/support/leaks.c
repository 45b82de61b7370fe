/* leaks.c - options that the sanitizers ask the program for; without them nobody calls these.
 *
 * Criterion does not look at how a test's process ends after the test's last line, unless it is by a signal. Its parent
 * process runs no test and leaks some bytes of its own, which are excused there only: its children know by a variable
 * what they are to run. Weak: a test program may have its own.
 */
#include "support/leaks.h"

#include <stdlib.h>

#define ASKED_FOR __attribute__((weak, visibility("default")))

ASKED_FOR const char *__asan_default_options(void);
ASKED_FOR const char *__lsan_default_suppressions(void);

const char *__asan_default_options(void) {
    return "abort_on_error=1";
}

const char *__lsan_default_suppressions(void) {
    return getenv("BXFI_MAP") == NULL ? "leak:libcriterion.so\n" : "";
}

void leaks_fail_tests(void) {
}
