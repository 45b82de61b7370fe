/* require.h - REQUIRE: our own invariants, checked in release builds too; never for input of any kind. */
#ifndef BASE_REQUIRE_H
#define BASE_REQUIRE_H

void require_failed(const char *what, const char *file, int line) __attribute__((noreturn));

#define REQUIRE(condition)                                                                         \
    ((condition) ? (void)0 : require_failed(#condition, __FILE__, __LINE__))

#endif
