/* leaks.c - makes the leak checker's verdict that of the tests.
 *
 * Criterion runs each test in a process of its own, and ignores how that process ends after the
 * test's last line: a leak is printed and the run passes. With abort_on_error it ends by a signal,
 * which fails the run. Criterion's parent process, in which no test runs, now and then leaks 48
 * bytes of its own per test; only there they are excused. The variable is the one by which
 * Criterion's process library tells its children what to run.
 */
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const char *__asan_default_options(void);
EXPORTED const char *__lsan_default_suppressions(void);

const char *__asan_default_options(void) {
    return "abort_on_error=1";
}

const char *__lsan_default_suppressions(void) {
    return getenv("BXFI_MAP") == NULL ? "leak:libcriterion.so\n" : "";
}
