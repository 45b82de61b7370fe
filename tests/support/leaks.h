/* leaks.h - makes the leak checker's verdict that of the tests. A program that calls this once,
 * anywhere, has it. */
#ifndef SUPPORT_LEAKS_H
#define SUPPORT_LEAKS_H

void leaks_fail_tests(void);

#endif
