#include "link.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

enum { TICK_MS = 5, ANSWER_DEADLINE_MS = 30000 };

static struct buf captured;

/* How long this thread was ready to run and did not; 0 where the kernel does not tell. */
static int64_t waited_ms(void) {
    long long waiting = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (file == NULL) {
        return 0;
    }
    char line[128];
    if (fgets(line, sizeof line, file) != NULL) {
        char *end = NULL;
        (void)strtoll(line, &end, 10);
        waiting = strtoll(end, NULL, 10);
    }
    fclose(file);
    return waiting / 1000000;
}

static void on_tick(uv_timer_t *timer) {
    struct link *link = timer->data;
    int64_t now = clock_now_ms(&clock_boottime), waited = waited_ms();
    int64_t lag = now - link->last_tick_ms - TICK_MS - (waited - link->last_wait_ms);
    link->last_wait_ms = waited;
    link->worst_lag_ms = lag > link->worst_lag_ms ? lag : link->worst_lag_ms;
    link->last_tick_ms = now;
}

static void on_up(void *context, struct db_conn *conn) {
    struct link *link = context;
    cr_assert(conn_is_ready(conn));
    link->ups++;
    if (link->on_up != NULL) {
        link->on_up(link);
    }
}

static void on_down(void *context, struct db_conn *conn, const struct error *why) {
    struct link *link = context;
    cr_assert_not(conn_is_ready(conn));
    link->downs++;
    link->why = *why;
    if (link->on_down != NULL) {
        link->on_down(link);
    }
}

static void on_notified(void *context, struct db_conn *conn, const char *channel) {
    struct link *link = context;
    (void)conn;
    link->notifications++;
    snprintf(link->channel, sizeof link->channel, "%s", channel);
    if (link->on_notified != NULL) {
        link->on_notified(link);
    }
}

static void on_closed(void *context, struct db_conn *conn) {
    struct link *link = context;
    (void)conn;
    link->closed = true;
    link->conn = NULL;
}

void link_open(struct link *link, uv_loop_t *loop, const struct conn_options *options) {
    if (captured.data == NULL) {
        log_set_level(LOG_ERROR);
    }
    link->owns_loop = loop == NULL;
    link->loop = loop != NULL ? loop : mem_alloc(sizeof *link->loop);
    if (link->owns_loop) {
        uv_loop_init(link->loop);
    }
    uv_timer_init(link->loop, &link->tick);
    link->tick.data = link;
    uv_timer_start(&link->tick, on_tick, TICK_MS, TICK_MS);
    link->last_tick_ms = clock_now_ms(&clock_boottime);
    link->last_wait_ms = waited_ms();
    struct conn_options complete = *options;
    complete.role = options->role != NULL ? options->role : "test";
    const struct conn_events events = {on_up, on_down, on_notified, on_closed, link};
    struct error err = ERROR_NONE;
    cr_assert_eq(conn_open(link->loop, &complete, &events, &link->conn, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert_not(conn_is_ready(link->conn));
}

void link_open_url(struct link *link, const char *url) {
    link_open(link, NULL, &(struct conn_options){.url = url});
    link_wait(link, &link->ups, 1, ANSWER_DEADLINE_MS);
}

void link_begin_close(struct link *link) {
    link->closing = true;
    conn_close(link->conn);
    cr_assert_not(link->closed, "closed within conn_close");
}

void link_close(struct link *link) {
    if (!link->closing) {
        link_begin_close(link);
    }
    int64_t deadline = clock_now_ms(&clock_boottime) + ANSWER_DEADLINE_MS;
    while (!link->closed) {
        cr_assert_lt(clock_now_ms(&clock_boottime), deadline);
        uv_run(link->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&link->tick, NULL);
    if (link->owns_loop) {
        uv_run(link->loop, UV_RUN_DEFAULT);
        cr_assert_eq(uv_loop_close(link->loop), 0, "the loop still has handles");
        free(link->loop);
    }
}

void link_wait(struct link *link, const int *number, int least, int64_t deadline_ms) {
    int64_t deadline = clock_now_ms(&clock_boottime) + deadline_ms;
    while (*number < least) {
        cr_assert_lt(clock_now_ms(&clock_boottime), deadline,
                     "waited %" PRId64 " ms: ups %d downs %d answers %d (%s) notifications %d",
                     deadline_ms, link->ups, link->downs, link->answers, link->error.text,
                     link->notifications);
        uv_run(link->loop, UV_RUN_ONCE);
    }
}

void link_wait_ready(struct link *link) {
    int64_t deadline = clock_now_ms(&clock_boottime) + ANSWER_DEADLINE_MS;
    while (!conn_is_ready(link->conn)) {
        cr_assert_lt(clock_now_ms(&clock_boottime), deadline, "not ready");
        uv_run(link->loop, UV_RUN_ONCE);
    }
}

void link_run_for(struct link *link, int64_t ms) {
    int64_t deadline = clock_now_ms(&clock_boottime) + ms;
    while (clock_now_ms(&clock_boottime) < deadline) {
        uv_run(link->loop, UV_RUN_ONCE);
    }
}

static void on_done(void *context, const struct db_reply *reply) {
    struct link *link = context;
    cr_assert_eq(link->answers_when_sent, link->answers, "answered twice, or within conn_send");
    link->answers++;
    link->code = reply->code;
    link->error = reply->error;
    link->failed = reply->failed;
    link->result_count = reply->result_count;
    link->value[0] = '\0';
    link->value_bytes = 0;
    link->rows = 0;
    if (reply->result_count > 0) {
        const struct db_result *last = reply->results[reply->result_count - 1];
        link->rows = db_rows(last);
        if (link->rows > 0 && db_columns(last) > 0) {
            snprintf(link->value, sizeof link->value, "%s", db_value(last, 0, 0));
            link->value_bytes = db_length(last, 0, 0);
        }
    }
    if (link->on_answer != NULL) {
        link->on_answer(link);
    }
}

void link_send(struct link *link, const struct db_request *request) {
    struct error err = ERROR_NONE;
    link->answers_when_sent = -1; /* an answer before conn_send returned would not fit */
    enum status code = conn_send(link->conn, request, on_done, link, &err);
    link->answers_when_sent = link->answers;
    cr_assert_eq(code, STATUS_OK, "%s", err.text);
    cr_assert_not(conn_is_ready(link->conn));
}

void link_send_text(struct link *link, const char *text) {
    const struct db_statement statement = {.text = text};
    link_send(link, &(struct db_request){.statement_count = 1, .statements = &statement});
}

enum status link_ask(struct link *link, const struct db_request *request) {
    int before = link->answers;
    link_send(link, request);
    cr_assert_eq(link->answers, before);
    link_wait(link, &link->answers, before + 1, ANSWER_DEADLINE_MS);
    return link->code;
}

enum status link_ask_text(struct link *link, const char *text) {
    const struct db_statement statement = {.text = text};
    return link_ask(link, &(struct db_request){.statement_count = 1, .statements = &statement});
}

enum status link_ask_texts(struct link *link, const char *const *texts) {
    struct db_statement statements[8] = {{0}};
    int count = 0;
    for (; texts[count] != NULL; count++) {
        statements[count].text = texts[count];
    }
    return link_ask(link, &(struct db_request){.transaction = true,
                                               .statement_count = count,
                                               .statements = statements});
}

int link_backend(struct link *link) {
    cr_assert_eq(link_ask_text(link, "select pg_backend_pid()"), STATUS_OK);
    return (int)strtol(link->value, NULL, 10);
}

static void on_line(void *context, enum log_level level, const char *line) {
    (void)context;
    (void)level;
    buf_append_string(&captured, line);
    buf_append_char(&captured, '\n');
}

void capture_log(void) {
    buf_init(&captured, 16 * 1024 * 1024);
    log_set_level(LOG_DEBUG);
    log_set_sink(on_line, NULL);
}

const char *captured_log(void) {
    return captured.data;
}
