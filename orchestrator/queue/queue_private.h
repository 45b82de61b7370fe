/* queue_private.h - what the files of the queue share: queue.c (life, connections), tick.c,
 * effects.c (lanes), duties.c (everything of one or few statements) and lead.c. Private to them.
 */
#ifndef QUEUE_QUEUE_PRIVATE_H
#define QUEUE_QUEUE_PRIVATE_H

#include "queue/channel.h"
#include "queue/effects.h"
#include "queue/queue.h"
#include "queue/tick.h"

typedef void (*done_callback)(void *context, const struct store_done_answer *answer);

/* A call of one request that is answered once. */
struct done_call {
    struct call call;
    bool active;
    done_callback done;
    void *done_context;
};

struct start_call {
    struct call call;
    bool active;
    void (*done)(void *context, const struct store_start_answer *answer);
    void *done_context;
};

struct beat_call {
    struct call call;
    bool active;
    void (*done)(void *context, const struct store_beat_answer *answer);
    void *done_context;
};

struct watch_call {
    struct call call;
    bool active;
    int states_at; /* statement */
    void (*done)(void *context, const struct store_watch_answer *answer);
    void *done_context;
};

struct fire_call {
    struct call call;
    bool active;
    void (*done)(void *context, const struct store_fire_answer *answer);
    void *done_context;
};

/* The leader's duties, one small transaction after the other. */
enum lead_step {
    LEAD_TAKE,
    LEAD_STAGE,
    LEAD_PERIODS,
    LEAD_END_LEASES,
    LEAD_RESCUE,
    LEAD_FORGET,
    LEAD_MOVE_STRANDED,
    LEAD_FOLD_COUNTS,
    LEAD_FOLD_STATS,
    LEAD_FOLD_HOURS,
    LEAD_PRUNE,
    LEAD_OVER,
};

struct lead_call {
    struct call call;
    bool active;
    enum lead_step step;
    int batches; /* of this step */
    int64_t node, lease_ms;
    bool may_rescue, fold;
    bool prune_more; /* the last step did not come to an end */
    struct store_lead_answer answer;
    void (*done)(void *context, const struct store_lead_answer *answer);
    void *done_context;
};

struct peers_call {
    struct call call;
    bool active, ended; /* ended: the rescue is under way */
    int batches;
    int64_t rescued;
    done_callback done;
    void *done_context;
};

struct queue {
    uv_loop_t *loop;
    char *url, *watch_url; /* watch_url NULL: the same */
    char *labels;          /* of the node, as an array literal */
    bool pooled;
    int64_t request_timeout_ms, connect_timeout_ms;
    struct clock_ops clock;
    struct random_ops random;
    struct store_events events;

    struct list channels; /* all that are open */
    struct channel ledger, watch, duty;
    struct tick_call tick;
    struct done_call release, end, notes;
    struct start_call start;
    struct beat_call beat;
    struct watch_call states;
    struct fire_call fire;
    struct lead_call lead;
    struct peers_call peers;
    int lane_count;
    struct lane **lanes; /* NULL until first used */

    int open_channels;
    bool closing;
    void (*closed)(void *context);
    void *closed_context;
};

/* queue.c */
enum status queue_open_channel(struct queue *queue, struct channel *channel, const char *role,
                               const struct channel_events *events, void *context,
                               struct error *err) MUST_CHECK;
void queue_channel_closed(struct queue *queue);
struct db_param queue_hold_tasks(struct script *script, int count, const struct store_hold *holds);
struct db_param queue_hold_claims(struct script *script, int count, const struct store_hold *holds);

/* stats.c */
void stats_add(struct script *script, const struct store_tick *request); /* add_stats.sql */

/* duties.c */
void duties_init(struct queue *queue);
void duties_finish(struct queue *queue);
enum status duties_start(void *context, const struct store_start *start,
                         void (*done)(void *, const struct store_start_answer *),
                         void *done_context, struct error *err) MUST_CHECK;
enum status duties_beat(void *context, int64_t node, int64_t lease_ms,
                        void (*done)(void *, const struct store_beat_answer *), void *done_context,
                        struct error *err) MUST_CHECK;
enum status duties_watch(void *context, int stage_count, const int *stages, bool count_open,
                         int busy_count, const int *busy, int busy_ms,
                         void (*done)(void *, const struct store_watch_answer *),
                         void *done_context, struct error *err) MUST_CHECK;
enum status duties_fire(void *context, int pipeline_count, const int *pipelines, int at_most,
                        void (*done)(void *, const struct store_fire_answer *), void *done_context,
                        struct error *err) MUST_CHECK;
enum status duties_notes(void *context, int64_t node, const char *notes, done_callback done,
                         void *done_context, struct error *err) MUST_CHECK;
enum status duties_release_unknown(void *context, int64_t node, int hold_count,
                                   const struct store_hold *holds, done_callback done,
                                   void *done_context, struct error *err) MUST_CHECK;
enum status duties_end(void *context, int64_t node, done_callback done, void *done_context,
                       struct error *err) MUST_CHECK;

/* lead.c */
void lead_init(struct queue *queue);
void lead_finish(struct queue *queue);
enum status lead_lead(void *context, int64_t node, int64_t lease_ms, bool may_rescue, bool fold,
                      void (*done)(void *, const struct store_lead_answer *), void *done_context,
                      struct error *err) MUST_CHECK;
enum status lead_end_peers(void *context, const char *host, int count, const int64_t *nodes,
                           done_callback done, void *done_context, struct error *err) MUST_CHECK;

#endif
