/* proxy.c - one thread, one poll(2) loop, a fixed number of connections; a command is a byte in a
 * pipe, answered by counting up `served`.
 */
#include "support/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/require.h"

/* A small receive buffer: what the client's side sends is not swallowed by the kernel at once. */
enum { PAIRS_MAX = 32, CHUNK_BYTES = 64 * 1024, TICK_MS = 10, RECEIVE_BYTES = 64 * 1024 };

/* One direction: bytes that were read and not written yet. */
struct flow {
    char bytes[CHUNK_BYTES];
    size_t start, end;
    int64_t allowance; /* bytes that the rate allows now */
};

struct pair {
    int client, server; /* -1: free */
    struct flow up, down;
};

struct proxy {
    char *socket_path;
    int port, listener;
    int commands[2];
    pthread_t thread;
    atomic_int mode, served, accepted;
    atomic_llong rate, up_bytes, down_bytes;
    int sent; /* commands; compared with `served` */
    bool stopping;
    int64_t last_tick_ms;
    struct pair pairs[PAIRS_MAX];
};

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1, receive = RECEIVE_BYTES;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    REQUIRE(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
            setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive, sizeof receive) == 0);
    REQUIRE(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 64) == 0);
    return fd;
}

static void drop(struct pair *pair, bool reset) {
    if (reset) {
        struct linger now = {.l_onoff = 1};
        setsockopt(pair->client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    close(pair->client);
    close(pair->server);
    pair->client = pair->server = -1;
}

static void accept_one(struct proxy *proxy) {
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) {
        return;
    }
    struct pair *pair = NULL;
    for (int i = 0; i < PAIRS_MAX && pair == NULL; i++) {
        pair = proxy->pairs[i].client < 0 ? &proxy->pairs[i] : NULL;
    }
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", proxy->socket_path);
    if (pair == NULL || connect(server, (struct sockaddr *)&address, sizeof address) != 0) {
        close(client);
        close(server);
        return;
    }
    int on = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(server, F_SETFL, O_NONBLOCK);
    pair->client = client;
    pair->server = server;
    pair->up.start = pair->up.end = pair->down.start = pair->down.end = 0;
    atomic_fetch_add(&proxy->accepted, 1);
}

/* False when the connection is at its end. */
static bool pump(struct flow *flow, int from, int to, bool limited, atomic_llong *count) {
    if (flow->start == flow->end) {
        size_t room = CHUNK_BYTES;
        if (limited && flow->allowance < (int64_t)room) {
            room = flow->allowance > 0 ? (size_t)flow->allowance : 0;
        }
        ssize_t got = room > 0 ? read(from, flow->bytes, room) : -1;
        if (got == 0 || (got < 0 && room > 0 && errno != EAGAIN && errno != EINTR)) {
            return false;
        }
        flow->start = 0;
        flow->end = got > 0 ? (size_t)got : 0;
        flow->allowance -= got > 0 ? got : 0;
    }
    if (flow->start < flow->end) {
        ssize_t sent = send(to, flow->bytes + flow->start, flow->end - flow->start, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return false;
        }
        flow->start += sent > 0 ? (size_t)sent : 0;
        atomic_fetch_add(count, sent > 0 ? sent : 0);
    }
    return true;
}

static void pump_pair(struct proxy *proxy, struct pair *pair) {
    enum proxy_mode mode = (enum proxy_mode)atomic_load(&proxy->mode);
    bool limited = atomic_load(&proxy->rate) > 0;
    bool up = mode != PROXY_BLACKHOLE;
    bool down = up && mode != PROXY_HOLD_REPLIES;
    if ((up && !pump(&pair->up, pair->client, pair->server, limited, &proxy->up_bytes)) ||
        (down && !pump(&pair->down, pair->server, pair->client, limited, &proxy->down_bytes))) {
        drop(pair, false);
    }
}

static void take_commands(struct proxy *proxy) {
    char command;
    while (read(proxy->commands[0], &command, 1) == 1) {
        if (command == 'c') {
            for (int i = 0; i < PAIRS_MAX; i++) {
                if (proxy->pairs[i].client >= 0) {
                    drop(&proxy->pairs[i], true);
                }
            }
        } else if (command == 'q') {
            proxy->stopping = true;
        }
        bool refuse = atomic_load(&proxy->mode) == PROXY_REFUSE;
        if (refuse && proxy->listener >= 0) {
            close(proxy->listener);
            proxy->listener = -1;
        } else if (!refuse && proxy->listener < 0) {
            proxy->listener = listen_on(proxy->port);
        }
        atomic_fetch_add(&proxy->served, 1);
    }
}

/* The bytes that the time since the last tick allows. */
static void grant(struct proxy *proxy) {
    int64_t now = clock_now_ms(&clock_boottime);
    int64_t bytes = atomic_load(&proxy->rate) * (now - proxy->last_tick_ms) / 1000;
    if (bytes == 0) {
        return;
    }
    proxy->last_tick_ms = now;
    for (int i = 0; i < PAIRS_MAX; i++) {
        proxy->pairs[i].up.allowance = bytes;
        proxy->pairs[i].down.allowance = bytes;
    }
}

static short wanted(const struct flow *in, const struct flow *out, bool in_open, bool out_open) {
    bool reads = in_open && in->start == in->end;
    bool writes = out_open && out->start < out->end;
    return (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

static nfds_t list_sockets(struct proxy *proxy, struct pollfd *list) {
    enum proxy_mode mode = (enum proxy_mode)atomic_load(&proxy->mode);
    bool limited = atomic_load(&proxy->rate) > 0;
    nfds_t count = 0;
    list[count++] = (struct pollfd){.fd = proxy->commands[0], .events = POLLIN};
    list[count++] =
        (struct pollfd){.fd = mode == PROXY_BLACKHOLE ? -1 : proxy->listener, .events = POLLIN};
    for (int i = 0; i < PAIRS_MAX; i++) {
        struct pair *pair = &proxy->pairs[i];
        if (pair->client < 0 || mode == PROXY_BLACKHOLE || limited) {
            continue; /* limited: moved by the tick */
        }
        bool down = mode != PROXY_HOLD_REPLIES;
        list[count++] = (struct pollfd){.fd = pair->client,
                                        .events = wanted(&pair->up, &pair->down, true, down)};
        list[count++] = (struct pollfd){.fd = pair->server,
                                        .events = wanted(&pair->down, &pair->up, down, true)};
    }
    return count;
}

static void *run(void *context) {
    struct proxy *proxy = context;
    while (!proxy->stopping) {
        struct pollfd list[2 + 2 * PAIRS_MAX];
        nfds_t count = list_sockets(proxy, list);
        bool limited = atomic_load(&proxy->rate) > 0;
        (void)poll(list, count, limited ? TICK_MS : -1);
        take_commands(proxy);
        if (limited) {
            grant(proxy);
        }
        if (proxy->listener >= 0 && atomic_load(&proxy->mode) != PROXY_BLACKHOLE) {
            accept_one(proxy);
        }
        for (int i = 0; i < PAIRS_MAX; i++) {
            if (proxy->pairs[i].client >= 0) {
                pump_pair(proxy, &proxy->pairs[i]);
            }
        }
    }
    return NULL;
}

static void command(struct proxy *proxy, char what) {
    REQUIRE(write(proxy->commands[1], &what, 1) == 1);
    proxy->sent++;
    while (atomic_load(&proxy->served) < proxy->sent) {
        sched_yield();
    }
}

struct proxy *proxy_start(const char *socket_path) {
    struct proxy *proxy = mem_alloc(sizeof *proxy);
    proxy->socket_path = mem_copy_string(socket_path);
    proxy->listener = listen_on(0);
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    REQUIRE(getsockname(proxy->listener, (struct sockaddr *)&address, &length) == 0);
    proxy->port = ntohs(address.sin_port);
    proxy->last_tick_ms = clock_now_ms(&clock_boottime);
    for (int i = 0; i < PAIRS_MAX; i++) {
        proxy->pairs[i].client = proxy->pairs[i].server = -1;
    }
    REQUIRE(pipe2(proxy->commands, O_CLOEXEC | O_NONBLOCK) == 0);
    REQUIRE(pthread_create(&proxy->thread, NULL, run, proxy) == 0);
    return proxy;
}

int proxy_port(const struct proxy *proxy) {
    return proxy->port;
}

char *proxy_url(const struct proxy *proxy, const char *host, const char *database) {
    return mem_format("postgresql://postgres@%s:%d/%s?sslmode=disable&gssencmode=disable", host,
                      proxy->port, database);
}

void proxy_set_mode(struct proxy *proxy, enum proxy_mode mode) {
    atomic_store(&proxy->mode, (int)mode);
    command(proxy, 'm');
}

void proxy_set_rate(struct proxy *proxy, int64_t bytes_per_second) {
    atomic_store(&proxy->rate, bytes_per_second);
    command(proxy, 'r');
}

void proxy_cut(struct proxy *proxy) {
    command(proxy, 'c');
}

int64_t proxy_bytes_to_server(const struct proxy *proxy) {
    return atomic_load(&proxy->up_bytes);
}

int64_t proxy_bytes_to_client(const struct proxy *proxy) {
    return atomic_load(&proxy->down_bytes);
}

int proxy_accepted(const struct proxy *proxy) {
    return atomic_load(&proxy->accepted);
}

void proxy_stop(struct proxy *proxy) {
    command(proxy, 'q');
    pthread_join(proxy->thread, NULL);
    for (int i = 0; i < PAIRS_MAX; i++) {
        if (proxy->pairs[i].client >= 0) {
            drop(&proxy->pairs[i], true);
        }
    }
    if (proxy->listener >= 0) {
        close(proxy->listener);
    }
    close(proxy->commands[0]);
    close(proxy->commands[1]);
    free(proxy->socket_path);
    free(proxy);
}
