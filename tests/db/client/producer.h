/* producer.h - a database with pipeline "p" of stage a, a producer's connection, and another one that looks on.
 *
 * One of each a test, opened by its fixture. expect_* work on the producer's connection and fail the test.
 */
#ifndef TESTS_PRODUCER_H
#define TESTS_PRODUCER_H

#include <libpq-fe.h>
#include <stdint.h>

extern PGconn *producer;
extern char *producer_url;

void producer_open(void);
void producer_close(void);

void expect_text(const char *sql, const char *text);
void expect_state(const char *sql, const char *sqlstate); /* "": it succeeds */

/* On the other connection. */
void producer_exec(const char *sql);
void expect_other_state(const char *sql, const char *sqlstate);
int64_t producer_number(const char *sql);
int producer_notices(void); /* notifications that have come since the last look; each must be empty */
int producer_claim(void);   /* claims all that is ready at stage a as node 1; how many */

#endif
