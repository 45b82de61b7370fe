/* link.h - a connection under test with the loop it runs on, and all that was heard from it. */
#ifndef TESTS_LINK_H
#define TESTS_LINK_H

#include <stdbool.h>
#include <uv.h>

#include "db/conn.h"

struct link {
    uv_loop_t *loop;
    bool owns_loop;
    uv_timer_t tick; /* every 5 ms: wakes the loop, and measures how late it is */
    int64_t last_tick_ms, last_wait_ms;
    int64_t worst_lag_ms; /* without the time in which the machine gave the thread no processor */

    struct db_conn *conn;
    int ups, downs, notifications, answers;
    bool closing, closed;
    struct error why; /* of the last `down` */
    char channel[64]; /* of the last notification */
    /* Called from within the callbacks, when set. */
    void (*on_up)(struct link *link);
    void (*on_down)(struct link *link);
    void (*on_notified)(struct link *link);
    void (*on_answer)(struct link *link);

    /* the last answer */
    enum status code;
    struct error error;
    int failed, result_count, rows;
    char value[256];    /* first cell of the last result, cut */
    size_t value_bytes; /* its whole length */
    int answers_when_sent;
};

/* `options` may leave out role, clock and random. `loop` NULL: one of its own. */
void link_open(struct link *link, uv_loop_t *loop, const struct conn_options *options);
void link_open_url(struct link *link, const char *url); /* and waits until it is up */
void link_begin_close(struct link *link);               /* may be left out */
void link_close(struct link *link); /* waits for `closed`; frees a loop of its own */

/* Runs the loop until `*number` is at least `least`; fails the test at the deadline. */
void link_wait(struct link *link, const int *number, int least, int64_t deadline_ms);
void link_wait_ready(struct link *link);
void link_run_for(struct link *link, int64_t ms);

/* Sends and waits for the answer, which is left in the link. Returns its code. */
enum status link_ask(struct link *link, const struct db_request *request);
enum status link_ask_text(struct link *link,
                          const char *text); /* one unnamed statement, no transaction */
enum status link_ask_texts(struct link *link,
                           const char *const *texts); /* a transaction; ends with NULL */
/* Sends only; the test fails when it is not taken. */
void link_send(struct link *link, const struct db_request *request);
void link_send_text(struct link *link, const char *text);
int link_backend(struct link *link); /* pid of the server process */

/* What was logged since the first call. */
void capture_log(void);
const char *captured_log(void);

#endif
