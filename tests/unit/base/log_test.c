#include "base/log.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/utf8.h"

enum { LINE_MAX_BYTES = 4096 };

static char captured[LINE_MAX_BYTES * 2];
static enum log_level captured_level;
static int captured_count;

static void capture(void *context, enum log_level level, const char *line) {
    (void)context;
    captured_level = level;
    captured_count++;
    strncpy(captured, line, sizeof captured - 1);
}

static void capture_lines(void) {
    log_set_sink(capture, NULL);
    log_set_level(LOG_DEBUG);
}

TestSuite(log, .timeout = 20, .init = capture_lines);

/* What stands behind the time. */
static const char *captured_rest(void) {
    const char *blank = strchr(captured, ' ');
    cr_assert_not_null(blank);
    return blank + 1;
}

static void expect_match(const char *text, const char *pattern) {
    regex_t regex;
    cr_assert_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    cr_expect_eq(regexec(&regex, text, 0, NULL, 0), 0, "'%s' does not match %s", text, pattern);
    regfree(&regex);
}

Test(log, line_is_time_level_event_fields) {
    log_event(LOG_INFO, "task.done", "task=%d stage=%s", 7, "scan");
    cr_expect_eq(captured_count, 1);
    cr_expect_eq(captured_level, LOG_INFO);
    expect_match(captured, "^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "
                           "info task\\.done task=7 stage=scan$");
}

Test(log, no_fields_leave_no_blank) {
    log_event(LOG_WARN, "node.started", NULL);
    cr_expect_str_eq(captured_rest(), "warn node.started");
    log_event(LOG_ERROR, "node.stopped", "%s", "");
    cr_expect_str_eq(captured_rest(), "error node.stopped");
}

Test(log, level_decides) {
    for (int limit = LOG_ERROR; limit <= LOG_DEBUG; limit++) {
        log_set_level((enum log_level)limit);
        for (int level = LOG_ERROR; level <= LOG_DEBUG; level++) {
            captured_count = 0;
            log_event((enum log_level)level, "x", "a=%d", 1);
            cr_expect_eq(captured_count, level <= limit);
            cr_expect_eq(log_is_on((enum log_level)level), level <= limit);
        }
    }
}

Test(log, level_from_name) {
    static const struct {
        const char *name;
        enum log_level level;
    } levels[] = {
        {"error", LOG_ERROR}, {"warn", LOG_WARN}, {"info", LOG_INFO}, {"debug", LOG_DEBUG}};
    static const char *const bad[] = {"", "INFO", "warning", "info ", "trace", "e"};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        enum log_level level = i == 0 ? LOG_DEBUG : LOG_ERROR;
        cr_expect(log_level_from_name(levels[i].name, &level));
        cr_expect_eq(level, levels[i].level);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        enum log_level level = LOG_WARN;
        cr_expect_not(log_level_from_name(bad[i], &level), "'%s'", bad[i]);
        cr_expect_eq(level, LOG_WARN);
    }
}

static const struct {
    const char *value, *as_field, *as_text;
} values[] = {
    {"plain", "plain", "\"plain\""},
    {"", "", "\"\""},
    {"a b", "a b", "\"a b\""},
    {"a\nb", "a\\nb", "\"a\\nb\""},
    {"a\r\tb", "a\\r\\tb", "\"a\\r\\tb\""},
    {"\x1B[31m", "\\x1b[31m", "\"\\x1b[31m\""},
    {"\x7F", "\\x7f", "\"\\x7f\""},
    {"say \"hi\"", "say \"hi\"", "\"say \\\"hi\\\"\""},
    {"a\\nb", "a\\nb", "\"a\\\\nb\""},
    {"gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F", "\"gr\xC3\xBC\xC3\x9F\""},
    {"\xFF", "\\xff", "\"\\xff\""},
    {"\xC2\x9B"
     "31m",
     "\\xc2\\x9b31m", "\"\\xc2\\x9b31m\""},
    {"\xC2\xA0", "\xC2\xA0", "\"\xC2\xA0\""},
};

Test(log, values_are_escaped_once) {
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char expected[200];
        log_event(LOG_INFO, "e", "v=%s", values[i].value);
        snprintf(expected, sizeof expected, "info e v=%s", values[i].as_field);
        cr_expect_str_eq(captured_rest(), expected);

        cr_expect_str_eq(log_text(values[i].value), values[i].as_text);
        log_event(LOG_INFO, "e", "v=%s", log_text(values[i].value));
        snprintf(expected, sizeof expected, "info e v=%s", values[i].as_text);
        cr_expect_str_eq(captured_rest(), expected);
    }
    cr_expect_str_eq(log_text(NULL), "-");
}

Test(log, text_lives_until_the_fourth_next_call) {
    const char *a = log_text("a"), *b = log_text("b"), *c = log_text("c"), *d = log_text("d");
    cr_expect_str_eq(a, "\"a\"");
    cr_expect_str_eq(b, "\"b\"");
    cr_expect_str_eq(c, "\"c\"");
    cr_expect_str_eq(d, "\"d\"");
}

/* Every length around the limits, with characters of one to four bytes. */
Test(log, long_values_are_cut_at_a_character_and_marked) {
    static const char *const characters[] = {"x", "\n", "\x01", "\xC3\xBC", "\xF0\x9F\x98\x80"};
    static char value[3 * LINE_MAX_BYTES];
    for (size_t c = 0; c < sizeof characters / sizeof characters[0]; c++) {
        for (size_t shift = 0; shift < 8; shift++) {
            size_t width = strlen(characters[c]), at = shift;
            memset(value, 'y', shift);
            for (; at + width < sizeof value; at += width) {
                memcpy(value + at, characters[c], width);
            }
            value[at] = '\0';

            const char *text = log_text(value);
            size_t length = strlen(text);
            cr_assert(length > 1000 && length < 1024, "%zu", length);
            cr_assert(utf8_is_valid(text, length));
            cr_assert_str_eq(text + length - 4, "...\"");

            log_event(LOG_INFO, "e", "v=%s", value);
            length = strlen(captured);
            cr_assert(length > 4070 && length < LINE_MAX_BYTES, "%zu", length);
            cr_assert(utf8_is_valid(captured, length));
            cr_assert_str_eq(captured + length - 3, "...");
            cr_assert_null(strchr(captured, '\n'));
        }
    }
}

Test(log, a_value_that_just_fits_is_not_marked) {
    static char value[2048];
    for (size_t length = 1000; length < 1040; length++) {
        memset(value, 'x', length);
        value[length] = '\0';
        const char *text = log_text(value);
        /* 1024 bytes a slot, less two quotes and the NUL. */
        cr_expect_eq(strstr(text, "...") == NULL, length <= 1021, "%zu", length);
        cr_expect_eq(strlen(text), (length <= 1021 ? length : 1021) + 2, "%zu", length);
    }
}

Test(log, errno_survives) {
    errno = EDOM;
    log_event(LOG_INFO, "e", "v=%s", log_text("x"));
    cr_expect_eq(errno, EDOM);
}

/* Puts `fd` in the place of standard error until stderr_restore(); returns the old one. */
static int stderr_replace(int fd) {
    int saved = dup(STDERR_FILENO);
    cr_assert_geq(saved, 0);
    cr_assert_geq(dup2(fd, STDERR_FILENO), 0);
    log_set_sink(NULL, NULL);
    return saved;
}

static void stderr_restore(int saved) {
    dup2(saved, STDERR_FILENO);
    close(saved);
}

/* A datagram socket keeps the borders of writes. */
Test(log, a_line_is_one_write_with_its_newline) {
    int pair[2];
    char got[2 * LINE_MAX_BYTES];
    static char value[2 * LINE_MAX_BYTES];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
    int saved = stderr_replace(pair[1]);
    memset(value, 'x', sizeof value - 1);
    log_event(LOG_INFO, "short", "a=%d", 1);
    log_event(LOG_INFO, "long", "a=%s", value);
    stderr_restore(saved);

    ssize_t length = recv(pair[0], got, sizeof got, MSG_DONTWAIT);
    cr_assert_gt(length, 0);
    cr_expect_eq(memcmp(got + length - 15, " info short a=1\n" + 1, 15), 0);
    length = recv(pair[0], got, sizeof got, MSG_DONTWAIT);
    cr_expect_leq(length, LINE_MAX_BYTES);
    cr_expect_geq(length, LINE_MAX_BYTES - 2);
    cr_expect_eq(got[length - 1], '\n');
    cr_expect_eq(recv(pair[0], got, sizeof got, MSG_DONTWAIT), -1, "a third write");
    close(pair[0]);
    close(pair[1]);
}

/* A blocking pipe that nobody reads: a log that waited would hang here until the timeout. */
Test(log, a_full_pipe_is_not_waited_for) {
    int pair[2];
    cr_assert_eq(pipe(pair), 0);
    int saved = stderr_replace(pair[1]);
    static char value[LINE_MAX_BYTES];
    memset(value, 'x', sizeof value - 1);
    for (int i = 0; i < 1000; i++) {
        log_event(LOG_INFO, "e", "v=%s", value);
    }
    stderr_restore(saved);
    close(pair[0]);
    close(pair[1]);
}

Test(log, a_full_non_blocking_pipe_drops_whole_lines) {
    int pair[2];
    static char got[1 << 20];
    cr_assert_eq(pipe2(pair, O_NONBLOCK), 0);
    int saved = stderr_replace(pair[1]);
    for (int i = 0; i < 5000; i++) {
        log_event(LOG_INFO, "e", "n=%08d", i);
    }
    stderr_restore(saved);
    close(pair[1]);
    size_t length = 0;
    ssize_t count;
    while ((count = read(pair[0], got + length, sizeof got - length)) > 0) {
        length += (size_t)count;
    }
    close(pair[0]);
    static const size_t line_length = sizeof "2026-11-30T21:00:00.123Z info e n=00000000";
    cr_expect_gt(length, 0);
    cr_expect_eq(length % line_length, 0);
}

Test(log, a_closed_pipe_raises_no_signal) {
    int pair[2];
    cr_assert_eq(signal(SIGPIPE, SIG_DFL) == SIG_ERR, 0);
    cr_assert_eq(pipe(pair), 0);
    close(pair[0]);
    int saved = stderr_replace(pair[1]);
    log_event(LOG_INFO, "e", "v=%d", 1);
    stderr_restore(saved);
    close(pair[1]);
}

Test(log, a_full_disk_or_no_standard_error_is_ignored) {
    int full = open("/dev/full", O_WRONLY);
    cr_assert_geq(full, 0);
    int saved = stderr_replace(full);
    errno = 0;
    log_event(LOG_INFO, "e", "v=%d", 1);
    close(STDERR_FILENO);
    log_event(LOG_INFO, "e", "v=%d", 1);
    cr_expect_eq(errno, 0);
    stderr_restore(saved);
    close(full);
}

enum { THREADS = 4, LINES_PER_THREAD = 200 };

static void *log_from_thread(void *context) {
    for (int i = 0; i < LINES_PER_THREAD; i++) {
        char name[] = {*(const char *)context, '\0'};
        log_event(LOG_INFO, "e", "a=%s b=%s", log_text(name), log_text(name));
    }
    return NULL;
}

Test(log, threads_do_not_mix_their_lines) {
    static char names[THREADS] = {'a', 'b', 'c', 'd'};
    char path[] = "/tmp/pgstage-log-test-XXXXXX";
    int fd = mkostemp(path, O_APPEND);
    cr_assert_geq(fd, 0);
    unlink(path);
    int saved = stderr_replace(fd);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, log_from_thread, &names[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    stderr_restore(saved);

    int count = 0;
    char line[200];
    FILE *file = fdopen(fd, "r");
    rewind(file);
    while (fgets(line, sizeof line, file) != NULL) {
        const char *fields = strstr(line, " info e ");
        cr_assert_not_null(fields);
        char expected[] = " info e a=\"?\" b=\"?\"\n";
        expected[11] = expected[17] = fields[11];
        cr_assert_str_eq(fields, expected);
        count++;
    }
    fclose(file);
    cr_expect_eq(count, THREADS * LINES_PER_THREAD);
}

Test(log, limit_allows_some_per_minute_and_counts_the_rest) {
    struct log_limit limit = {0};
    long long now = 1000000;
    for (int i = 0; i < 10; i++) {
        cr_expect_eq(log_limit_allows(&limit, 3, now + i), i < 3);
    }
    cr_expect_eq(limit.suppressed, 7);
    cr_expect_not(log_limit_allows(&limit, 3, now + 59999));
    cr_expect(log_limit_allows(&limit, 3, now + 60000));
    cr_expect_eq(limit.suppressed, 8, "for the caller to report");
    cr_expect_eq(limit.written, 1);
}

Test(log, limit_survives_strange_times_and_counts) {
    struct log_limit limit = {0};
    cr_expect(log_limit_allows(&limit, 1, 0));
    cr_expect_not(log_limit_allows(&limit, 1, 1));
    cr_expect(log_limit_allows(&limit, 1, -5), "the clock went back: a new window");
    cr_expect_not(log_limit_allows(&limit, 0, 70000));
    cr_expect_not(log_limit_allows(&limit, -1, 140000));
    limit.suppressed = INT_MAX;
    cr_expect_not(log_limit_allows(&limit, 0, 140001));
    cr_expect_eq(limit.suppressed, INT_MAX);
}
