/* channel.c - the only place that touches the descriptor to the node.
 *
 * A handler may close it, or close it and open a file that gets its number. Both are found by the
 * socket's identity before bytes move, so that frames never end up in somebody's file.
 */
#include "worker/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker/lifeline.h"

static struct stat opened;
static pthread_mutex_t send_lock = PTHREAD_MUTEX_INITIALIZER;

_Noreturn void channel_breach(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("pgstage-worker: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    _exit(EXIT_PROTOCOL);
}

void channel_open(void) {
    if (fstat(LIFELINE_FD, &opened) != 0 || !S_ISSOCK(opened.st_mode)) {
        channel_breach("descriptor %d is no socket: this program is started by pgstage itself",
                       LIFELINE_FD);
    }
    /* A program that the handler executes must not keep the node from seeing the end of this
     * worker. */
    fcntl(LIFELINE_FD, F_SETFD, FD_CLOEXEC);
}

static void check_identity(void) {
    struct stat now;
    if (fstat(LIFELINE_FD, &now) != 0 || now.st_dev != opened.st_dev ||
        now.st_ino != opened.st_ino) {
        channel_breach("the handler closed descriptor %d, which is not its own", LIFELINE_FD);
    }
}

static void wait_writable(void) {
    struct pollfd node = {.fd = LIFELINE_FD, .events = POLLOUT};
    poll(&node, 1, -1);
}

static void send_all(const char *bytes, size_t length) {
    check_identity();
    while (length > 0) {
        ssize_t sent = send(LIFELINE_FD, bytes, length, MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes += sent;
            length -= (size_t)sent;
        } else if (errno == EAGAIN) {
            wait_writable();
        } else if (errno != EINTR) {
            lifeline_end();
        }
    }
}

void channel_send(const char *bytes, size_t length) {
    pthread_mutex_lock(&send_lock);
    send_all(bytes, length);
    pthread_mutex_unlock(&send_lock);
}

bool channel_try_send(const char *bytes, size_t length) {
    if (pthread_mutex_trylock(&send_lock) != 0) {
        return false;
    }
    send_all(bytes, length);
    pthread_mutex_unlock(&send_lock);
    return true;
}

static void wait_readable(void) {
    for (;;) {
        struct pollfd node = {.fd = LIFELINE_FD, .events = POLLIN};
        int ready = poll(&node, 1, lifeline_check());
        if (ready > 0) {
            return;
        }
    }
}

size_t channel_receive(char *to, size_t size) {
    for (;;) {
        wait_readable();
        check_identity();
        ssize_t got = recv(LIFELINE_FD, to, size, MSG_DONTWAIT);
        if (got > 0) {
            return (size_t)got;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            lifeline_end();
        }
    }
}
