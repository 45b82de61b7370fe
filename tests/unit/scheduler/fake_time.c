/* fake_time.c - a binary heap of calls. */
#include "fake_time.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/require.h"

struct fake_event {
    int64_t at_ms;
    uint64_t order;
    void (*call)(void *context);
    void *context;
};

struct fake_owned {
    void *object;
    void (*destroy)(void *object);
};

void fake_time_init(struct fake_time *time, int64_t now_ms) {
    *time = (struct fake_time){.now_ms = now_ms};
}

void fake_time_finish(struct fake_time *time) {
    free(time->heap);
    for (size_t i = 0; i < time->owned_count; i++) {
        time->owned[i].destroy(time->owned[i].object);
    }
    free(time->owned);
    *time = (struct fake_time){0};
}

static int64_t now_of(void *context) {
    const struct fake_time *time = context;
    return time->now_ms;
}

struct clock_ops fake_time_clock(struct fake_time *time) {
    return (struct clock_ops){.now_ms = now_of, .context = time};
}

static bool before(const struct fake_event *a, const struct fake_event *b) {
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static void swap(struct fake_event *a, struct fake_event *b) {
    struct fake_event kept = *a;
    *a = *b;
    *b = kept;
}

void fake_time_call(struct fake_time *time, int64_t after_ms, void (*call)(void *context), void *context) {
    REQUIRE(after_ms >= 0);
    if (time->count == time->capacity) {
        time->capacity = time->capacity == 0 ? 64 : time->capacity * 2;
        time->heap = mem_resize(time->heap, time->capacity, sizeof *time->heap);
    }
    size_t i = time->count++;
    time->heap[i] = (struct fake_event){time->now_ms + after_ms, time->asked++, call, context};
    while (i > 0 && before(&time->heap[i], &time->heap[(i - 1) / 2])) {
        swap(&time->heap[i], &time->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

void fake_time_own(struct fake_time *time, void *object, void (*destroy)(void *object)) {
    if (time->owned_count == time->owned_capacity) {
        time->owned_capacity = time->owned_capacity == 0 ? 16 : time->owned_capacity * 2;
        time->owned = mem_resize(time->owned, time->owned_capacity, sizeof *time->owned);
    }
    time->owned[time->owned_count++] = (struct fake_owned){object, destroy};
}

int64_t fake_time_next(const struct fake_time *time) {
    return time->count == 0 ? INT64_MAX : time->heap[0].at_ms;
}

static struct fake_event take_first(struct fake_time *time) {
    struct fake_event first = time->heap[0];
    time->heap[0] = time->heap[--time->count];
    for (size_t i = 0;;) {
        size_t least = i, left = 2 * i + 1, right = left + 1;
        if (left < time->count && before(&time->heap[left], &time->heap[least])) {
            least = left;
        }
        if (right < time->count && before(&time->heap[right], &time->heap[least])) {
            least = right;
        }
        if (least == i) {
            return first;
        }
        swap(&time->heap[i], &time->heap[least]);
        i = least;
    }
}

bool fake_time_step(struct fake_time *time, int64_t until_ms) {
    if (fake_time_next(time) > until_ms) {
        time->now_ms = until_ms > time->now_ms ? until_ms : time->now_ms;
        return false;
    }
    struct fake_event event = take_first(time);
    time->now_ms = event.at_ms > time->now_ms ? event.at_ms : time->now_ms;
    event.call(event.context);
    return true;
}
