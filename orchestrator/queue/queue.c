/* queue.c - the queue's life: its connections, its events, its end. */
#include "queue/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "db/array.h"
#include "queue/queue_private.h"

enum { REQUEST_TIMEOUT_MS = 30000 };

/* Settings that our statements rely on, whatever the role or the database says: each statement sees
 * what was committed before it, times read back as they were written, and nothing but the time-outs of our own ends a
 * request. For the session, or behind a pooler for each transaction. transaction_timeout: since PostgreSQL 17. */
#define OWN_SETTINGS(LOCAL)                                                                                                    \
    "select set_config('statement_timeout', '0', " LOCAL "), set_config('lock_timeout', '0', " LOCAL "),"                     \
    " set_config('idle_in_transaction_session_timeout', '60s', " LOCAL "),"                                                   \
    " case when current_setting('transaction_timeout', true) is not null"                                                     \
    " then set_config('transaction_timeout', '0', " LOCAL ") end,"                                                            \
    " set_config('client_connection_check_interval', '5s', " LOCAL "),"                                                       \
    " set_config('DateStyle', 'ISO, YMD', " LOCAL "), set_config('TimeZone', 'UTC', " LOCAL "),"                              \
    " set_config('search_path', 'pg_catalog', " LOCAL "), set_config('jit', 'off', " LOCAL ")"
/* Effects keep the user's own settings but for these; effect_begin sets the statement time-out of each. */
#define EFFECT_SETTINGS(LOCAL)                                                                                                 \
    "select set_config('statement_timeout', '0', " LOCAL "), set_config('client_connection_check_interval', '5s', " LOCAL "),"  \
    " case when current_setting('transaction_timeout', true) is not null"                                                     \
    " then set_config('transaction_timeout', '0', " LOCAL ") end"
/* What only a session has. */
#define SESSION_SETTINGS                                                                                                       \
    ", set_config('default_transaction_isolation', 'read committed', false), set_config('idle_session_timeout', '0', false)"

static const char *settings_of(bool is_effect, bool pooled) {
    if (pooled) {
        return is_effect ? EFFECT_SETTINGS("true") : OWN_SETTINGS("true");
    }
    return is_effect ? EFFECT_SETTINGS("false") SESSION_SETTINGS : OWN_SETTINGS("false") SESSION_SETTINGS;
}

static struct db_param hold_column(struct script *script, int count, const struct store_hold *holds,
                                   bool claims) {
    array_begin(&script->literal);
    for (int i = 0; i < count; i++) {
        array_add_int(&script->literal, claims ? holds[i].claim : holds[i].task);
    }
    return script_take_array(script);
}

struct db_param queue_hold_tasks(struct script *script, int count, const struct store_hold *holds) {
    return hold_column(script, count, holds, false);
}

struct db_param queue_hold_claims(struct script *script, int count,
                                  const struct store_hold *holds) {
    return hold_column(script, count, holds, true);
}

/* ---- events of the three connections ---- */

static void on_ledger_up(struct channel *channel) {
    struct queue *queue = channel->context;
    if (!queue->closing) {
        queue->events.ready(queue->events.context);
    }
}

static void on_ledger_down(struct channel *channel) {
    struct queue *queue = channel->context;
    if (!queue->closing && queue->events.down != NULL) {
        queue->events.down(queue->events.context);
    }
}

/* LISTEN is in force by now: whoever looks after this call misses nothing that is committed later
 * without a notice. */
static void on_watch_up(struct channel *channel) {
    struct queue *queue = channel->context;
    if (!queue->closing) {
        queue->events.woken(queue->events.context);
    }
}

static void on_duty_up(struct channel *channel) {
    (void)channel;
}

static void on_notified(struct channel *channel) {
    on_watch_up(channel);
}

static void on_closed(struct channel *channel) {
    queue_channel_closed(channel->context);
}

static const struct channel_events ledger_events = {
    .up = on_ledger_up, .down = on_ledger_down, .notified = on_notified, .closed = on_closed};
static const struct channel_events watch_events = {
    .up = on_watch_up, .notified = on_notified, .closed = on_closed};
static const struct channel_events duty_events = {
    .up = on_duty_up, .notified = on_notified, .closed = on_closed};

enum status queue_open_channel(struct queue *queue, struct channel *channel, const char *role,
                               const struct channel_events *events, void *context,
                               struct error *err) {
    bool is_watch = channel == &queue->watch;
    bool is_effect = channel != &queue->ledger && channel != &queue->duty && !is_watch;
    bool pooled = queue->pooled && !(is_watch && queue->watch_url != NULL);
    struct conn_options options = {
        .url = is_watch && queue->watch_url != NULL ? queue->watch_url : queue->url,
        .role = role,
        .listen = is_watch && !pooled ? "pgstage" : NULL,
        .settings = settings_of(is_effect, pooled),
        .pooled = pooled,
        .resets = is_effect,
        .connect_timeout_ms = queue->connect_timeout_ms,
        .request_timeout_ms = is_effect ? 0 : queue->request_timeout_ms,
        .clock = &queue->clock,
        .random = &queue->random,
    };
    enum status code = channel_open(channel, queue->loop, &queue->channels, &options, queue->request_timeout_ms,
                                    events, context, err);
    if (code == STATUS_OK) {
        queue->open_channels++;
    }
    return code;
}

/* ---- the end ---- */

static void queue_free(struct queue *queue) {
    tick_finish(&queue->tick);
    duties_finish(queue);
    lead_finish(queue);
    for (int i = 0; i < queue->lane_count; i++) {
        effects_lane_finish(queue->lanes[i]);
    }
    free(queue->lanes);
    free(queue->url);
    free(queue->watch_url);
    free(queue->labels);
    free(queue);
}

void queue_channel_closed(struct queue *queue) {
    if (--queue->open_channels > 0) {
        return;
    }
    void (*closed)(void *context) = queue->closed;
    void *context = queue->closed_context;
    queue_free(queue);
    if (closed != NULL) {
        closed(context);
    }
}

static void close_channels(struct queue *queue) {
    queue->closing = true;
    struct channel *fixed[] = {&queue->ledger, &queue->watch, &queue->duty};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        if (fixed[i]->conn != NULL) {
            channel_close(fixed[i]);
        }
    }
    for (int i = 0; i < queue->lane_count; i++) {
        if (queue->lanes[i] != NULL) {
            channel_close(&queue->lanes[i]->channel);
        }
    }
}

void queue_close(struct queue *queue, void (*closed)(void *context), void *context) {
    queue->closed = closed;
    queue->closed_context = context;
    close_channels(queue);
}

/* ---- the beginning ---- */

static char *write_labels(const char *const *labels) {
    struct buf text;
    buf_init(&text, SIZE_MAX);
    array_begin(&text);
    for (int i = 0; labels != NULL && labels[i] != NULL; i++) {
        array_add_text(&text, labels[i], strlen(labels[i]));
    }
    array_end(&text);
    char *literal = buf_take(&text);
    buf_finish(&text);
    return literal;
}

static struct queue *allocate(uv_loop_t *loop, const struct queue_options *options,
                              const struct store_events *events) {
    struct queue *queue = mem_alloc(sizeof *queue);
    queue->loop = loop;
    list_init(&queue->channels);
    queue->url = mem_copy_string(options->url);
    queue->watch_url = mem_copy_string(options->watch_url);
    queue->labels = write_labels(options->labels);
    queue->pooled = options->pooled;
    queue->request_timeout_ms =
        options->request_timeout_ms > 0 ? options->request_timeout_ms : REQUEST_TIMEOUT_MS;
    queue->connect_timeout_ms = options->connect_timeout_ms;
    queue->clock = *options->clock;
    queue->random = *options->random;
    queue->events = *events;
    queue->lane_count = options->lane_count;
    queue->lanes = mem_alloc(((size_t)options->lane_count + 1) * sizeof *queue->lanes);
    tick_init(&queue->tick, &queue->ledger);
    duties_init(queue);
    lead_init(queue);
    return queue;
}

enum status queue_create(uv_loop_t *loop, const struct queue_options *options,
                         const struct store_events *events, struct store_ops *ops,
                         struct queue **queue, struct error *err) {
    struct queue *made = allocate(loop, options, events);
    enum status code = queue_open_channel(made, &made->ledger, "ledger", &ledger_events, made, err);
    if (code == STATUS_OK) {
        code = queue_open_channel(made, &made->watch, "watch", &watch_events, made, err);
    }
    if (code == STATUS_OK) {
        code = queue_open_channel(made, &made->duty, "duty", &duty_events, made, err);
    }
    if (code != STATUS_OK) {
        if (made->open_channels == 0) {
            queue_free(made);
        } else {
            close_channels(made); /* frees it when they are closed */
        }
        return code;
    }
    *ops = (struct store_ops){
        .tick = tick_send,
        .tick_ready = tick_ready,
        .effects = effects_send,
        .lane_ready = effects_lane_ready,
        .release_unknown = duties_release_unknown,
        .start = duties_start,
        .end_peers = lead_end_peers,
        .end = duties_end,
        .beat = duties_beat,
        .watch = duties_watch,
        .fire = duties_fire,
        .notes = duties_notes,
        .lead = lead_lead,
        .context = made,
    };
    *queue = made;
    return STATUS_OK;
}
