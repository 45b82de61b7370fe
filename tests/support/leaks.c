/* leaks.c - makes the leak checker's verdict that of the tests: part of every test program, see
 * pgstage_test.
 *
 * Criterion runs each test in a process of its own, and does not look at how that process ends
 * after the test's last line, unless it is by a signal. Its parent process runs no test and leaks
 * some bytes of its own, which are excused there only: its children know by a variable what they
 * are to run. Without sanitizers nobody calls these.
 */
#include "support/leaks.h"

#include <stdlib.h>

#define ASKED_FOR __attribute__((visibility("default")))

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
