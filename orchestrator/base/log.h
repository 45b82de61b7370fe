/* log.h - structured log lines on standard error, one line an event: TIME LEVEL EVENT key=value ...
 *
 * The event name is a constant; what varies goes into fields. Control bytes in values are escaped, so that no value can
 * begin a second line. Never log payloads or connection strings. Levels: error = a person must act, warn = degraded,
 * info = life cycle, debug = transitions. A log that cannot be written (disk full, closed pipe) is dropped, never waited
 * for. Thread rule: any thread.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
bool log_level_from_name(const char *name, enum log_level *level);
bool log_is_on(enum log_level level);

/* Called with each finished line (no newline) instead of writing it; NULL restores standard error. */
void log_set_sink(void (*sink)(void *context, enum log_level level, const char *line), void *context);

/* `fields` is a printf format that yields "key=value key=value". Text values are given with log_text(). */
void log_event(enum log_level level, const char *event, const char *fields, ...)
    __attribute__((format(printf, 3, 4)));

/* Quotes and escapes a value of foreign origin. Ownership: borrowed until the fourth next call in the same thread. */
const char *log_text(const char *value);

/* At most `per_minute` lines of one kind: true when this one may be written. `state` is the caller's, zeroed at first;
 * `suppressed` counts up until the caller has reported it and sets it to 0. */
struct log_limit {
    long long window_start_ms;
    int written, suppressed;
};
bool log_limit_allows(struct log_limit *state, int per_minute, long long now_ms);
/* Whether log_limit_allows would say no, without asking it. */
bool log_limit_is_spent(const struct log_limit *state, int per_minute, long long now_ms);
/* `count` lines more were not written. */
void log_limit_suppress(struct log_limit *state, size_t count);

#endif
