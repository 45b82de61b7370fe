/* worker.c - the machine of one worker process.
 *
 *   STARTING --ready--> IDLE <--empty/given--> BUSY        any of them:  malformed frame, no READY
 * in time --> KILLING |                |                       |                       time-out,
 * interrupt --> TERMINATING | stop           | stop                  | refused, connection ended
 * --> LEAVING v                v                       v                       reaped --> ENDING
 *   TERMINATING <--- STOPPING            LEAVING, TERMINATING --deadline--> KILLING
 *
 *   any --reaped--> ENDING --group gone, output at its end--> DEAD
 *
 * What a state does is done on entering it (enter). A deadline gives the loop one more turn before
 * it counts: when the node itself was stopped for a while, the answers that wait in the sockets
 * come first.
 */
#include "workers/worker.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/require.h"
#include "base/units.h"
#include "workers/group.h"
#include "workers/worker_parts.h"

enum {
    STOP_WAIT_MS = 10000, /* for fini */
    EXIT_WAIT_MS = 1000,  /* between the end of the connection and that of the process */
    KILL_AGAIN_MS = 1000, /* a process in uninterruptible sleep takes its time */
};

static const char *const state_names[WORKER_STATE_COUNT] = {
    [WORKER_STARTING] = "starting", [WORKER_IDLE] = "idle",
    [WORKER_BUSY] = "busy",         [WORKER_STOPPING] = "stopping",
    [WORKER_LEAVING] = "leaving",   [WORKER_TERMINATING] = "terminating",
    [WORKER_KILLING] = "killing",   [WORKER_ENDING] = "ending",
    [WORKER_DEAD] = "dead",
};

static const char *const event_names[WORKER_EVENT_COUNT] = {
    [EVENT_READY] = "ready",       [EVENT_GIVEN] = "given",       [EVENT_EMPTY] = "empty",
    [EVENT_STOP] = "stop",         [EVENT_REFUSED] = "refused",   [EVENT_MALFORMED] = "malformed",
    [EVENT_PIPE_END] = "pipe_end", [EVENT_DEADLINE] = "deadline", [EVENT_TERMINATE] = "terminate",
    [EVENT_KILL] = "kill",         [EVENT_EXIT] = "exit",         [EVENT_GONE] = "gone",
};

/* Entries are a state plus one; 0, where nothing is written: must not happen. */
#define TO(STATE) (WORKER_##STATE + 1)
enum { STAY = WORKER_STATE_COUNT + 1 };

static const unsigned char moves[WORKER_STATE_COUNT][WORKER_EVENT_COUNT] = {
    [WORKER_STARTING] = {[EVENT_READY] = TO(IDLE),
                         [EVENT_STOP] = TO(TERMINATING),
                         [EVENT_REFUSED] = TO(LEAVING),
                         [EVENT_MALFORMED] = TO(KILLING),
                         [EVENT_PIPE_END] = TO(LEAVING),
                         [EVENT_DEADLINE] = TO(KILLING),
                         [EVENT_EXIT] = TO(ENDING)},
    [WORKER_IDLE] = {[EVENT_GIVEN] = TO(BUSY),
                     [EVENT_STOP] = TO(STOPPING),
                     [EVENT_MALFORMED] = TO(KILLING),
                     [EVENT_PIPE_END] = TO(LEAVING),
                     [EVENT_EXIT] = TO(ENDING)},
    [WORKER_BUSY] = {[EVENT_GIVEN] = STAY,
                     [EVENT_EMPTY] = TO(IDLE),
                     [EVENT_MALFORMED] = TO(KILLING),
                     [EVENT_PIPE_END] = TO(LEAVING),
                     [EVENT_DEADLINE] = TO(TERMINATING),
                     [EVENT_TERMINATE] = TO(TERMINATING),
                     [EVENT_KILL] = TO(KILLING),
                     [EVENT_EXIT] = TO(ENDING)},
    [WORKER_STOPPING] = {[EVENT_MALFORMED] = TO(KILLING),
                         [EVENT_PIPE_END] = STAY,
                         [EVENT_DEADLINE] = TO(TERMINATING),
                         [EVENT_TERMINATE] = TO(TERMINATING),
                         [EVENT_KILL] = TO(KILLING),
                         [EVENT_EXIT] = TO(ENDING)},
    [WORKER_LEAVING] = {[EVENT_MALFORMED] = TO(KILLING),
                        [EVENT_PIPE_END] = STAY,
                        [EVENT_DEADLINE] = TO(KILLING),
                        [EVENT_TERMINATE] = TO(TERMINATING),
                        [EVENT_KILL] = TO(KILLING),
                        [EVENT_EXIT] = TO(ENDING)},
    [WORKER_TERMINATING] = {[EVENT_MALFORMED] = TO(KILLING),
                            [EVENT_PIPE_END] = STAY,
                            [EVENT_DEADLINE] = TO(KILLING),
                            [EVENT_TERMINATE] = STAY,
                            [EVENT_KILL] = TO(KILLING),
                            [EVENT_EXIT] = TO(ENDING)},
    [WORKER_KILLING] = {[EVENT_MALFORMED] = STAY,
                        [EVENT_PIPE_END] = STAY,
                        [EVENT_DEADLINE] = TO(KILLING),
                        [EVENT_TERMINATE] = STAY,
                        [EVENT_KILL] = STAY,
                        [EVENT_EXIT] = TO(ENDING)},
    [WORKER_ENDING] = {[EVENT_MALFORMED] = STAY,
                       [EVENT_PIPE_END] = STAY,
                       [EVENT_TERMINATE] = STAY,
                       [EVENT_KILL] = STAY,
                       [EVENT_GONE] = TO(DEAD)},
};

/* ---- deadlines ------------------------------------------------------------------------------ */

static void on_deadline(uv_timer_t *timer);

void worker_arm_after(struct worker *worker, int64_t delay_ms) {
    /* The loop's time may be old by what the callbacks before this one took. */
    uv_update_time(worker->setup->loop);
    uv_timer_start(&worker->timer, on_deadline, delay_ms > 0 ? (uint64_t)delay_ms : 0, 0);
}

static void arm_busy(struct worker *worker) {
    int64_t by_ms = worker->interrupt_by_ms;
    int64_t timeout_ms = worker->setup->spec->timeout_ms;
    if (timeout_ms > 0 && timeout_ms < by_ms - worker->head_ms) {
        by_ms = worker->head_ms + timeout_ms;
    }
    if (by_ms == INT64_MAX) {
        uv_timer_stop(&worker->timer);
    } else {
        worker_arm_after(worker, by_ms - worker_now(worker));
    }
}

void worker_arm(struct worker *worker) {
    worker->last_call = false;
    switch (worker->state) {
    case WORKER_STARTING:
        worker_arm_after(worker, worker->setup->start_timeout_ms);
        return;
    case WORKER_BUSY:
        arm_busy(worker);
        return;
    case WORKER_STOPPING:
        worker_arm_after(worker, STOP_WAIT_MS);
        return;
    case WORKER_LEAVING:
        worker_arm_after(worker, EXIT_WAIT_MS);
        return;
    case WORKER_TERMINATING:
        worker_arm_after(worker, worker->setup->spec->grace_ms);
        return;
    case WORKER_KILLING:
        worker_arm_after(worker, KILL_AGAIN_MS);
        return;
    case WORKER_IDLE:   /* waits for the pool */
    case WORKER_ENDING: /* polls */
    case WORKER_DEAD:
        uv_timer_stop(&worker->timer);
        return;
    }
}

/* The run in hand: of a batch, all that are not answered. */
static void time_out(struct worker *worker, int64_t timeout_ms) {
    char limit[32];
    worker_blame(worker, CAUSE_TIMEOUT, "no answer within %s",
                 units_format_duration(timeout_ms, limit, sizeof limit));
    LIST_EACH(node, &worker->pipe) {
        struct run *run = LIST_ENTRY(node, struct run, link);
        run->fate = RUN_TIMED_OUT;
        if (run->batch == NULL) {
            break;
        }
    }
}

/* The run in hand took too long, or one behind it that is to be interrupted does not get its turn.
 * False: neither, the timer was early. */
static bool condemn_busy(struct worker *worker) {
    int64_t now_ms = worker_now(worker);
    int64_t timeout_ms = worker->setup->spec->timeout_ms;
    struct run *head = worker_head(worker);
    if (head->fate == RUN_OPEN && timeout_ms > 0 && now_ms - worker->head_ms >= timeout_ms) {
        time_out(worker, timeout_ms);
        return true;
    }
    if (now_ms >= worker->interrupt_by_ms) {
        worker_blame(worker, CAUSE_INTERRUPT, "interrupted");
        return true;
    }
    return false;
}

static void deadline_passed(struct worker *worker) {
    switch (worker->state) {
    case WORKER_STARTING:
        if (worker->cause == CAUSE_SPAWN) {
            worker_step(worker, EVENT_EXIT);
            return;
        }
        worker_blame(worker, CAUSE_SILENCE, "silence at start");
        break;
    case WORKER_BUSY:
        if (!condemn_busy(worker)) {
            worker_arm(worker);
            return;
        }
        break;
    case WORKER_LEAVING:
        worker_blame(worker, CAUSE_PROTOCOL, "closed its connection and lived on");
        break;
    case WORKER_STOPPING:
    case WORKER_TERMINATING:
    case WORKER_KILLING:
        break;
    case WORKER_ENDING:
        worker_end_poll(worker);
        return;
    case WORKER_IDLE:
    case WORKER_DEAD:
        REQUIRE(!"a state without a deadline");
        return;
    }
    worker_step(worker, EVENT_DEADLINE);
}

static void on_deadline(uv_timer_t *timer) {
    struct worker *worker = timer->data;
    bool answers_count = worker->state < WORKER_TERMINATING;
    if (answers_count && !worker->last_call) {
        worker->last_call = true;
        worker_arm_after(worker, 1);
        return;
    }
    deadline_passed(worker);
}

/* ---- states --------------------------------------------------------------------------------- */

static void enter(struct worker *worker) {
    switch (worker->state) {
    case WORKER_STOPPING: {
        struct error err = ERROR_NONE;
        worker_blame(worker, CAUSE_STOP, "stopped");
        enum status put = wire_put_stop(stream_out(&worker->channel), &err);
        REQUIRE(put == STATUS_OK);
        break;
    }
    case WORKER_TERMINATING:
        group_signal(worker->group, SIGTERM);
        break;
    case WORKER_KILLING:
        group_signal(worker->group, SIGKILL);
        break;
    case WORKER_ENDING:
        worker_end_poll(worker);
        break;
    case WORKER_DEAD:
        worker_bury(worker);
        break;
    case WORKER_STARTING:
    case WORKER_IDLE:
    case WORKER_BUSY:
    case WORKER_LEAVING:
        break;
    }
}

static void set_state(struct worker *worker, enum worker_state next, enum worker_event event) {
    log_event(LOG_DEBUG, "worker.state", "stage=%s worker=%d pid=%d %s -> %s (%s)",
              worker->setup->spec->stage, worker->number, (int)worker->group,
              state_names[worker->state], state_names[next], event_names[event]);
    worker->state = next;
    worker_arm(worker);
    enter(worker); /* last: it may go on to the next state */
}

void worker_step(struct worker *worker, enum worker_event event) {
    unsigned char move = moves[worker->state][event];
    REQUIRE(move != 0);
    if (move != STAY) {
        set_state(worker, (enum worker_state)(move - 1), event);
    }
}

void worker_blame(struct worker *worker, enum worker_cause cause, const char *format, ...) {
    if (worker->cause != CAUSE_NONE) {
        return;
    }
    worker->cause = cause;
    va_list args;
    va_start(args, format);
    vsnprintf(worker->why, sizeof worker->why, format, args);
    va_end(args);
}
