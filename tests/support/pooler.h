/* pooler.h - a pgbouncer in front of the shared cluster, on a Unix socket in a folder of its own.
 *
 * It goes when the test that started it ends, however that is. Failures end the test with a message.
 */
#ifndef SUPPORT_POOLER_H
#define SUPPORT_POOLER_H

struct pooler_process;

/* `mode`: "transaction" or "session"; `more`: further lines of its settings, or "". */
struct pooler_process *pooler_start(const char *mode, int pool_size, const char *more);
char *pooler_url(const struct pooler_process *pooler, const char *database); /* free() it */
void pooler_stop(struct pooler_process *pooler);

#endif
