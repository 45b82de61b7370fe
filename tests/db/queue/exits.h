/* exits.h - the exit matrix: each way out of `running` against each thing that can happen to the
 * document, at each moment at which it can.
 */
#ifndef TESTS_EXITS_H
#define TESTS_EXITS_H

#include "world.h"

enum exit_way {
    EXIT_NEXT_MID,       /* one stage ended well, the claim is given back */
    EXIT_NEXT_LAST,      /* the last stage ended well */
    EXIT_ROUTE,          /* one stage ended well, and sent the task back to the first */
    EXIT_FINISH,         /* one stage ended well, and the document is done with it */
    EXIT_DELAYED,        /* failed, attempts left */
    EXIT_FAILED,         /* failed for good */
    EXIT_RELEASE,        /* given back unharmed */
    EXIT_CRASH,          /* the worker died, the task is ready again */
    EXIT_TIMEOUT,        /* killed for its time, attempts left */
    EXIT_RESCUE,         /* the node's lease ended */
    EXIT_RESCUE_NO_NODE, /* the node's row is gone */
    EXIT_QUARANTINE,     /* the tenth node was lost */
    EXIT_RELEASE_UNKNOWN,
    EXIT_DEAD_PEER, /* a starting node proved the old one dead */
    EXIT_WAYS,
};

enum change {
    CHANGE_NONE,
    CHANGE_SUBMIT,
    CHANGE_SUBMIT_TWICE,
    CHANGE_CANCEL,
    CHANGE_CANCEL_SUBMIT,
    CHANGE_SUBMIT_CANCEL,
    CHANGES
};

enum moment {
    BEFORE_CLAIM,
    AFTER_CLAIM,
    AFTER_STAY,  /* after the first transition, which is sent once more afterwards, as after a lost
                    answer */
    BEFORE_EXIT, /* the result is in the node's memory */
    WITHIN_EXIT, /* committed after the exit statement took its snapshot */
    AFTER_EXIT,
    MOMENTS,
};

extern const char *const exit_way_names[];

/* All changes at all moments; says which one went wrong. */
bool exits_hold(struct world *world, enum exit_way way);
bool exits_hold_one(struct world *world, enum exit_way way, enum change change, enum moment moment);

#endif
