/* chains.h - chains as parameters of complete.sql and its relatives, and its rows as verdicts.
 *
 * Statements answer in the order of task ids, so a list is kept in that order and remembers where
 * each chain stood in the request. Content is made storable here: texts go through the one
 * sanitizer with a cap, delays are bounded.
 */
#ifndef QUEUE_CHAINS_H
#define QUEUE_CHAINS_H

#include "ports/store.h"
#include "queue/script.h"

enum {
    CHAIN_KIND_MAX_BYTES = 64,
    CHAIN_REASON_MAX_BYTES = 8 * 1024,
    CHAIN_DETAIL_MAX_BYTES = 16 * 1024,
};

struct chain_ref {
    const struct store_chain *chain;
    int index; /* in the request */
};

/* Ascending by task. */
struct chain_list {
    int count;
    struct chain_ref *refs;
};

/* Where in the array literal of outputs each value stands, so that a part of them can be sent
 * again. */
struct chain_outputs {
    const char *literal;
    int count;
    struct chain_output {
        size_t start, end;
        int index; /* of its chain, in the request */
    } * items;
};

/* `refs` in the order of the request; sorts them. INVALID: a task is named twice. */
enum status chains_sort(struct chain_list *list, struct error *err) MUST_CHECK;

/* Adds complete.sql. `outputs` may be NULL; else its memory is the script's. */
void chains_add_complete(struct script *script, const struct chain_list *list,
                         struct chain_outputs *outputs);
/* $1 .. $7 of look_at_fences.sql. */
void chains_add_look(struct script *script, const struct chain_list *list);
/* Adds hold_fences.sql: the last transition of each chain is still to be made. */
void chains_add_hold(struct script *script, const struct chain_list *list);
/* Adds require_steps.sql. */
void chains_add_require(struct script *script, const struct chain_list *list);

/* Reads complete.sql's rows into verdicts[ref.index]. INTERNAL: they are not what was asked for. */
enum status chains_read_verdicts(const struct chain_list *list, const struct db_result *result,
                                 struct store_verdict *verdicts, struct error *err) MUST_CHECK;

#endif
