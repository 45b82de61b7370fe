/* conform_checks.h - the checks of `pgstage conform`, in the order in which they are made. Each wants a program that is ready
 * and has nothing in hand, and leaves it so when it succeeds. */
#ifndef CLI_CONFORM_CHECKS_H
#define CLI_CONFORM_CHECKS_H

#include "cli/conform_talk.h"

struct check {
    const char *name;
    const char *where; /* heading of docs/worker-protocol.md */
    bool (*run)(struct talk *talk);
    bool only_batch;
    bool ends_program; /* it leaves none that is ready */
};

extern const struct check conform_checks[];
extern const size_t conform_check_count;

/* conform_batch.c */
bool check_batch_of_many(struct talk *talk);
bool check_batch_mixed(struct talk *talk);
bool check_batch_failed(struct talk *talk);
bool check_batch_tell(struct talk *talk);

/* conform_ends.c */
bool check_unknown_members(struct talk *talk);
bool check_refused(struct talk *talk);
bool check_stop(struct talk *talk);
bool check_end_of_input(struct talk *talk);
bool check_sigterm(struct talk *talk);

#endif
