/* tick.h - the tick on the ledger connection. Private to the queue. */
#ifndef QUEUE_TICK_H
#define QUEUE_TICK_H

#include "queue/chains.h"
#include "queue/channel.h"
#include "queue/inputs.h"
#include "queue/progress.h"

/* IDLE --tick--> WRITING --answer--> IDLE      WRITING --content refused--> PROBING --chain found,
 * or not--> IDLE */
enum tick_state { TICK_IDLE, TICK_WRITING, TICK_PROBING };

struct tick_call {
    struct call call, probe;
    struct channel *channel;
    enum tick_state state;
    struct arena arena; /* copies of what the answer needs */
    struct chain_list chains;
    struct chain_outputs outputs; /* in the memory of call.script */
    int claim_count, fetch_count;
    struct inputs_wanted *wanted; /* one a claim, then one a fetch; in the arena */
    int progress_count;
    int64_t *progress_tasks; /* whose progress was sent; in the arena */
    int complete_at, claims_at, told_at; /* statements; -1: none */
    int keep_at, inputs_at, progress_at;

    int probe_low, probe_high; /* one of these outputs is refused */
    int probe_end;             /* the probe in flight is of probe_low .. probe_end */
    struct error refusal;

    void (*done)(void *context, const struct store_tick_answer *answer);
    void *done_context;
};

void tick_init(struct tick_call *tick, struct channel *channel);
void tick_finish(struct tick_call *tick);
enum status tick_send(void *context, const struct store_tick *request,
                      void (*done)(void *, const struct store_tick_answer *), void *done_context,
                      struct error *err) MUST_CHECK;
bool tick_ready(void *context);

#endif
