/* rig.h - runs the real program on a fresh database of the shared test server, and looks at what it left behind.
 *
 * Failures end the test. Every wait has a deadline; nothing sleeps for a fixed time.
 */
#ifndef NODE_RIG_H
#define NODE_RIG_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RIG_NODES = 4, RIG_DEADLINE_MS = 60 * 1000 };

struct rig {
    char folder[64];     /* the pipeline's folder and the home of lock files; removed by rig_finish */
    char *url;           /* of a migrated database */
    const char *node_url; /* what nodes get; the same unless a test puts a proxy between */
    pid_t nodes[RIG_NODES];
};

void rig_init(struct rig *rig);
void rig_finish(struct rig *rig); /* kills what still runs */

/* Writes FOLDER/NAME; "%H" in the text becomes the path of the ordinary test handlers, "%L" of the ledger handlers. */
void rig_write(struct rig *rig, const char *name, const char *text);
/* A copy of a shared object in the folder: a link would lead out of it. */
void rig_copy(struct rig *rig, const char *from, const char *name);
/* pgstage ARGUMENTS... in the rig's folder; returns the exit status, the output is in *output (free it) when wanted. */
int rig_run(struct rig *rig, char **output, const char *arguments, ...) __attribute__((format(printf, 3, 4)));
/* Starts `pgstage run p.yaml OPTIONS` as node `index`, in a process group of its own. */
pid_t rig_start(struct rig *rig, int index, const char *options);
/* Waits for the node's end; its exit status, or 128 + signal. */
int rig_wait(struct rig *rig, int index);
char *rig_log(struct rig *rig, int index); /* all that the node wrote; free it */

/* Signals a node that is stopping until it counts as the second request. */
void rig_insist(struct rig *rig, int index, int signal);

int64_t rig_number(struct rig *rig, const char *sql);
/* Waits until the query gives `wanted`. */
void rig_await(struct rig *rig, const char *sql, int64_t wanted);
bool rig_await_log(struct rig *rig, int index, const char *text);
/* Submits keys PREFIX1 .. PREFIXn with the same payload. */
void rig_submit(struct rig *rig, const char *prefix, int count, const char *payload);
/* What must hold at any quiet moment: counts are true, every running task has its batch. */
void rig_check_counts(struct rig *rig);
int64_t rig_now_ms(void);
void rig_pause(void); /* between two looks at a condition */
/* Processes whose command line contains `text`. */
int rig_count_processes(const char *text);

#endif
