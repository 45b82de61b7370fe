/* channel.h - bytes to and from the node. When the node is gone, nothing here returns: the process
 * group ends.
 *
 * Thread rule: channel_send from any thread, whole frames each; channel_receive from one thread at
 * a time.
 */
#ifndef WORKER_CHANNEL_H
#define WORKER_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>

/* The exit status after a breach of the protocol: bytes that make no message, a descriptor that a
 * handler closed. */
enum { EXIT_PROTOCOL = 4 };
/* Says why on standard error and ends this process with EXIT_PROTOCOL. */
_Noreturn void channel_breach(const char *format, ...) __attribute__((format(printf, 1, 2)));

void channel_open(void);

/* Blocks until the node has taken all of it. */
void channel_send(const char *bytes, size_t length);
/* For a process that ends: false, and nothing is sent, when another thread is in the middle of a
 * frame. */
bool channel_try_send(const char *bytes, size_t length);

/* Blocks until there are bytes; meanwhile the lease is watched. Returns how many came, at least
 * one. */
size_t channel_receive(char *to, size_t size);

#endif
