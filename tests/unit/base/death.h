/* death.h - calls that must end the process: run in a fork, judged by signal and message.
 *
 * Not Criterion's .signal: that sees no message and cannot tell a REQUIRE from any other abort.
 */
#ifndef TEST_DEATH_H
#define TEST_DEATH_H

void expect_abort(void (*call)(void), const char *message_part);

#endif
