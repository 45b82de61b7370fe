/* effects.h - the user's SQL, and the completions that belong to it. Private to the queue.
 *
 *   IDLE --effects--> LOOKING --some held--> WRITING --answer--> IDLE       LOOKING --none held, or
 * failed--> IDLE
 */
#ifndef QUEUE_EFFECTS_H
#define QUEUE_EFFECTS_H

#include "queue/chains.h"
#include "queue/channel.h"

struct queue;

enum lane_state { LANE_IDLE, LANE_LOOKING, LANE_WRITING };

struct lane {
    struct queue *queue;
    char role[32]; /* of its connection */
    struct channel channel;
    struct call call;
    enum lane_state state;

    struct arena arena; /* the copy of the request, and its verdicts */
    int count;
    struct store_effect *effects;
    int64_t timeout_ms;
    const char *db_role;
    struct store_effect_verdict *verdicts;
    struct chain_list all, held; /* those that are held, of all */

    /* Statements of the transaction: begin, the effects' own (behind those of each what undoes its settings, and begin
     * again), end, lock_pipelines, hold_fences, complete, require_steps. */
    int first_own, end_at, hold_at,
        complete_at; /* first_own: the first statement of an effect; end_at: the one behind */
    int *owners;     /* owners[i]: whose is statement first_own + i */

    void (*done)(void *context, const struct store_effects_answer *answer);
    void *done_context;
};

enum status effects_send(void *context, int lane, const struct store_effects *request,
                         void (*done)(void *, const struct store_effects_answer *),
                         void *done_context, struct error *err) MUST_CHECK;
bool effects_lane_ready(void *context, int lane);
void effects_lane_finish(struct lane *lane); /* its channel is closed */

/* effects_copy.c: a deep copy of a request, for it is borrowed for the call only. */
struct store_effect *effects_copy(struct arena *arena, int count,
                                  const struct store_effect *effects);
/* effects_sql.c: the session's settings, role and temporary tables as the effect before found them; EFFECTS_UNDO_MAX
 * statements at most. effect_begin is to follow. */
enum { EFFECTS_UNDO_MAX = 7 };
void effects_add_undo(struct script *script);
/* Why a statement cannot be sent; NULL when it can. */
const char *effects_refusal(const char *sql);

#endif
