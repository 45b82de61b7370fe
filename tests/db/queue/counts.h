/* counts.h - what has to hold of the tables at any commit, as SQL that names what does not. */
#ifndef TESTS_COUNTS_H
#define TESTS_COUNTS_H

/* One text: "" when the kept counts are those of the task table and every running task is in its
 * claim's batch. */
extern const char counts_sql[];

#endif
