#include "workers/throttle.h"

#include "base/require.h"

enum {
    QUANTUM_BYTES = 256 * 1024, /* of one pipe, in one go */
    GO_MS = 2,                  /* bytes that came before that are not of this go */
    PAUSE_MS = 2,
    BYTES_PER_MS = 128 * 1024, /* of all pipes that are held */
    PAUSE_MAX_MS = 100,
};

static void read_again(struct throttled *throttled) {
    throttled->taken = 0;
    throttled->since_ms = uv_now(throttled->throttle->timer.loop);
    uv_read_start(throttled->stream, throttled->alloc, throttled->read);
}

static void on_timer(uv_timer_t *timer) {
    struct throttle *throttle = timer->data;
    throttle->held_bytes = 0;
    while (!list_is_empty(&throttle->held)) {
        struct throttled *throttled = LIST_ENTRY(throttle->held.next, struct throttled, link);
        list_remove(&throttled->link);
        read_again(throttled);
    }
}

void throttle_init(struct throttle *throttle, uv_loop_t *loop) {
    list_init(&throttle->held);
    uv_timer_init(loop, &throttle->timer);
    throttle->timer.data = throttle;
}

void throttle_close(struct throttle *throttle, struct close_group *group) {
    REQUIRE(list_is_empty(&throttle->held));
    close_group_add(group, (uv_handle_t *)&throttle->timer);
}

void throttled_start(struct throttled *throttled, struct throttle *throttle, uv_stream_t *stream, uv_alloc_cb alloc,
                     uv_read_cb read) {
    *throttled = (struct throttled){.throttle = throttle, .stream = stream, .alloc = alloc, .read = read};
    list_init(&throttled->link);
    read_again(throttled);
}

static void hold(struct throttled *throttled) {
    struct throttle *throttle = throttled->throttle;
    uv_read_stop(throttled->stream);
    list_append(&throttle->held, &throttled->link);
    throttle->held_bytes += throttled->taken;
    size_t pause_ms = throttle->held_bytes / BYTES_PER_MS;
    pause_ms = pause_ms < PAUSE_MS ? PAUSE_MS : pause_ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause_ms;
    uv_timer_start(&throttle->timer, on_timer, pause_ms, 0);
}

void throttled_took(struct throttled *throttled, size_t bytes) {
    uint64_t now_ms = uv_now(throttled->throttle->timer.loop);
    if (now_ms - throttled->since_ms > GO_MS) {
        throttled->taken = 0;
        throttled->since_ms = now_ms;
    }
    throttled->taken += bytes;
    if (throttled->taken >= QUANTUM_BYTES && list_is_empty(&throttled->link)) {
        hold(throttled);
    }
}

void throttled_stop(struct throttled *throttled) {
    if (throttled->stream != NULL) {
        uv_read_stop(throttled->stream);
        list_remove(&throttled->link);
    }
}
