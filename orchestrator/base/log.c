/* log.c - one line an event, formatted on the stack and written by one write(2).
 *
 * A line is at most LOG_LINE_MAX bytes with its newline: the size up to which POSIX keeps writes of
 * several processes to one pipe apart, and which a pipe that polls as writable takes without
 * blocking.
 */
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"

enum { LOG_LINE_MAX = 4096, LOG_TEXT_MAX = 1024, LOG_TEXT_SLOTS = 4, LOG_WINDOW_MS = 60000 };

static const char *const level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warn",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
};
enum { LEVEL_COUNT = sizeof level_names / sizeof level_names[0] };

static atomic_int current_level = LOG_INFO;

static struct {
    pthread_mutex_t lock;
    void (*call)(void *context, enum log_level level, const char *line);
    void *context;
} log_sink = {.lock = PTHREAD_MUTEX_INITIALIZER};

void log_set_level(enum log_level level) {
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

bool log_level_from_name(const char *name, enum log_level *level) {
    for (int i = 0; i < LEVEL_COUNT; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool log_is_on(enum log_level level) {
    return (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

void log_set_sink(void (*sink)(void *context, enum log_level level, const char *line),
                  void *context) {
    pthread_mutex_lock(&log_sink.lock);
    log_sink.call = sink;
    log_sink.context = context;
    pthread_mutex_unlock(&log_sink.lock);
}

/* Writes at `out` what stands for the first character of `text`; returns how many bytes of `text`
 * that was. Control characters (C0, DEL, and C1, which terminals obey too) and ill-formed bytes
 * come out as printable ASCII, so that escaping twice changes nothing. In quotes, the quote and the
 * backslash are escaped as well. */
static size_t escape_one(const char *text, size_t length, bool in_quotes, char out[9]) {
    size_t taken = utf8_sequence(text, length);
    unsigned char first = (unsigned char)text[0];
    if (first == '\n' || first == '\t' || first == '\r') {
        snprintf(out, 9, "\\%c", first == '\n' ? 'n' : first == '\t' ? 't' : 'r');
    } else if (taken == 0 || first < 0x20 || first == 0x7F) {
        taken = 1;
        snprintf(out, 9, "\\x%02x", first);
    } else if (taken == 2 && utf8_is_c1(text)) {
        snprintf(out, 9, "\\xc2\\x%02x", (unsigned char)text[1]);
    } else if (in_quotes && (first == '"' || first == '\\')) {
        snprintf(out, 9, "\\%c", first);
    } else {
        memcpy(out, text, taken);
        out[taken] = '\0';
    }
    return taken;
}

/* Escapes `text` into `out` of `size` bytes; what does not fit is cut at a character and marked by
 * "...". Returns the length written, without the NUL. */
static size_t escape(char *out, size_t size, const char *text, size_t length, bool in_quotes) {
    static const char mark[] = "...";
    size_t used = 0, cut = 0; /* cut: the last place where the mark would still fit */
    while (length > 0) {
        char one[9];
        size_t taken = escape_one(text, length, in_quotes, one);
        size_t width = strlen(one);
        if (used + width >= size) {
            memcpy(out + cut, mark, sizeof mark);
            return cut + sizeof mark - 1;
        }
        memcpy(out + used, one, width);
        used += width;
        if (used + sizeof mark <= size) {
            cut = used;
        }
        text += taken;
        length -= taken;
    }
    out[used] = '\0';
    return used;
}

const char *log_text(const char *value) {
    static _Thread_local char slots[LOG_TEXT_SLOTS][LOG_TEXT_MAX];
    static _Thread_local unsigned next;
    if (value == NULL) {
        return "-";
    }
    char *slot = slots[next++ % LOG_TEXT_SLOTS];
    slot[0] = '"';
    size_t used = 1 + escape(slot + 1, LOG_TEXT_MAX - 2, value, strlen(value), true);
    slot[used] = '"';
    slot[used + 1] = '\0';
    return slot;
}

/* Never waits and never raises SIGPIPE for a pipe whose reader is gone: both show in poll before
 * the write. A pipe that another process fills in between can still block or fail; the daemon
 * ignores SIGPIPE for that case. */
static void write_line(char *line, size_t length) {
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) != 1 || (out.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
        return;
    }
    line[length] = '\n';
    ssize_t written;
    do {
        written = write(STDERR_FILENO, line, length + 1);
    } while (written < 0 && errno == EINTR);
}

static size_t put_head(char *out, size_t size, enum log_level level, const char *event) {
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t used = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &parts);
    int more = snprintf(out + used, size - used, ".%03ldZ %s %s", now.tv_nsec / 1000000,
                        level_names[level], event);
    used += more > 0 ? (size_t)more : 0;
    return used < size ? used : size - 1;
}

void log_event(enum log_level level, const char *event, const char *fields, ...) {
    if (!log_is_on(level)) {
        return;
    }
    int saved_errno = errno;
    char line[LOG_LINE_MAX];
    const size_t size =
        sizeof line - 1; /* the newline takes the place of the NUL, and the NUL one more */
    size_t used = put_head(line, size / 2, level, event);

    if (fields != NULL && fields[0] != '\0') {
        char raw[LOG_LINE_MAX];
        va_list args;
        va_start(args, fields);
        int length = vsnprintf(raw, sizeof raw, fields, args);
        va_end(args);
        if (length > 0) {
            /* A text that vsnprintf cut is as long as the whole line, so that escape() cuts and
             * marks it. */
            size_t raw_length = (size_t)length < sizeof raw ? (size_t)length : sizeof raw - 1;
            line[used++] = ' ';
            used += escape(line + used, size - used, raw, raw_length, false);
        }
    }

    pthread_mutex_lock(&log_sink.lock);
    void (*call)(void *context, enum log_level level, const char *line) = log_sink.call;
    void *context = log_sink.context;
    pthread_mutex_unlock(&log_sink.lock);
    if (call != NULL) {
        call(context, level, line);
    } else {
        write_line(line, used);
    }
    errno = saved_errno;
}

static bool is_new_window(const struct log_limit *state, long long now_ms) {
    return now_ms < state->window_start_ms || now_ms - state->window_start_ms >= LOG_WINDOW_MS;
}

bool log_limit_is_spent(const struct log_limit *state, int per_minute, long long now_ms) {
    return per_minute <= 0 || (!is_new_window(state, now_ms) && state->written >= per_minute);
}

void log_limit_suppress(struct log_limit *state, size_t count) {
    size_t room = (size_t)(INT_MAX - state->suppressed);
    state->suppressed += (int)(count < room ? count : room);
}

bool log_limit_allows(struct log_limit *state, int per_minute, long long now_ms) {
    if (log_limit_is_spent(state, per_minute, now_ms)) {
        log_limit_suppress(state, 1);
        return false;
    }
    if (is_new_window(state, now_ms)) {
        state->window_start_ms = now_ms;
        state->written = 0;
    }
    state->written++;
    return true;
}
