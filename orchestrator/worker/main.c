/* main.c - pgstage-worker: runs one stage's tasks, one or a batch at a time, for the node that started
 * it.
 *
 * Descriptors: 0 /dev/null, 1 and 2 pipes to the node, 3 frames to and from the node
 * (wire/messages.h), 4 the node's lock file, which is never touched: as long as anything that a
 * handler forked holds it, this node is not dead. Exit status: 0 stopped in order, 2 wrong use, 3
 * refused (the reason was sent), 4 a breach of the protocol.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker/channel.h"
#include "worker/identity.h"
#include "worker/inbox.h"
#include "worker/lifeline.h"
#include "worker/limits.h"
#include "worker/runner.h"
#include "worker/work.h"

enum { EXIT_USAGE = 2, EXIT_REFUSED = 3, FIRST_FOREIGN_FD = 5 };

#ifdef __SANITIZE_ADDRESS__
/* A handler's crash must look to the node as it does without the sanitizer: as a signal. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "handle_segv=0:handle_sigbus=0:handle_sigill=0:handle_sigfpe=0:handle_abort=0:"
           "allocator_may_return_null=1";
}
#endif

static pid_t parse_parent(int argc, char **argv) {
    if (argc != 2) {
        return 0;
    }
    char *end;
    errno = 0;
    long parent = strtol(argv[1], &end, 10);
    return errno == 0 && *end == '\0' && parent > 0 && (pid_t)parent == parent ? (pid_t)parent : 0;
}

/* Niceness first: another user may not lower it. */
static enum status settle(const struct wire_hello *hello, struct error *err) {
    enum status status = limits_apply_nice(hello, err);
    if (status == STATUS_OK && hello->user.data != NULL) {
        status = identity_become(hello->user.data, hello->work.data, err);
    }
    return status == STATUS_OK ? work_enter(hello->work.data, err) : status;
}

static enum status start(struct error *err) {
    static struct wire_hello hello; /* its texts are wanted to the end */
    if (inbox_wait_hello(&hello, err) != STATUS_OK) {
        if (hello.major != WIRE_MAJOR && hello.major != 0) {
            return err->code;
        }
        channel_breach("the node sent %s", err->text);
    }
    lifeline_set_lease_end(hello.lease_end_ms);
    if (settle(&hello, err) != STATUS_OK) {
        return err->code;
    }
    if (hello.engine == WIRE_HANDLER) { /* a program gets its limits when it is started */
        limits_apply(&hello);
    }
    inbox_start();
    return runner_start(&hello, err);
}

int main(int argc, char **argv) {
    pid_t parent = parse_parent(argc, argv);
    if (parent == 0) {
        fputs("usage: pgstage-worker PARENT-PID (started by `pgstage run`, not by hand)\n", stderr);
        return EXIT_USAGE;
    }
    lifeline_start(parent);
    channel_open();
    close_range(FIRST_FOREIGN_FD, ~0u, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct error err = ERROR_NONE;
    enum status started = start(&err);
    if (started == STATUS_OK) {
        runner_run();
    } else {
        runner_send_refused(err.text);
    }
    lifeline_end_children();
    return started == STATUS_OK ? 0 : EXIT_REFUSED;
}
