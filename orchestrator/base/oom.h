/* oom.h - whether the kernel killed a process because memory ran out.
 *
 * A process that it kills dies of SIGKILL, as one that anybody kills. What tells them apart is a counter: that of this
 * process's control group when it has one, else that of the whole machine. Thread rule: none of its own.
 */
#ifndef BASE_OOM_H
#define BASE_OOM_H

#include <stdbool.h>
#include <stdint.h>

/* The line "oom_kill N" of the file; NULL: of the nearest counter. -1: there is none. */
int64_t oom_count(const char *path);

/* Looks at the counter now and then, so that a rise can be told from one of long ago. */
struct oom_watch {
    const char *path;    /* as above; borrowed */
    int64_t older, newer; /* the last two looks */
};

void oom_watch_init(struct oom_watch *watch, const char *path);
/* To be called once a second or so: a kill counts until the second call after it. */
void oom_watch_look(struct oom_watch *watch);
/* A process has just died of SIGKILL: true when a kill was counted that explains it. Each explains one death. */
bool oom_watch_explains(struct oom_watch *watch);

#endif
