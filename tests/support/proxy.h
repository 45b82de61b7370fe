/* proxy.h - a TCP proxy in front of a server's Unix socket, run by a thread: what networks do to
 * connections.
 *
 * Thread rule: the calls are for one thread, beside the proxy's own.
 */
#ifndef SUPPORT_PROXY_H
#define SUPPORT_PROXY_H

#include <stdint.h>

enum proxy_mode {
    PROXY_FORWARD,
    PROXY_BLACKHOLE,    /* bytes of either side are left lying; connections are accepted and never
                           answered */
    PROXY_HOLD_REPLIES, /* the server gets everything, the client nothing */
    PROXY_REFUSE,       /* nobody listens; what is connected goes on */
};

struct proxy;

struct proxy *proxy_start(const char *socket_path);
int proxy_port(const struct proxy *proxy);
/* Ownership: free() it. `host`: "127.0.0.1" or "localhost". */
char *proxy_url(const struct proxy *proxy, const char *host, const char *database);
void proxy_set_mode(struct proxy *proxy, enum proxy_mode mode); /* in force when it returns */
void proxy_set_rate(struct proxy *proxy,
                    int64_t bytes_per_second); /* each way; 0: as fast as it goes */
void proxy_cut(struct proxy *proxy);           /* resets all connections; done when it returns */
int64_t proxy_bytes_to_server(const struct proxy *proxy);
int64_t proxy_bytes_to_client(const struct proxy *proxy);
int proxy_accepted(const struct proxy *proxy); /* connections so far */
void proxy_stop(struct proxy *proxy);

#endif
