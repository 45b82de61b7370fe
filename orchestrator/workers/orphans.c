#include "workers/orphans.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/children.h"
#include "base/log.h"
#include "base/map.h"

static struct map known;
static bool takes_over;
static pid_t logged; /* it may take more than one look until it is dead */

static void note_child(void *context, pid_t child) {
    bool *has_children = context;
    (void)child;
    *has_children = true;
}

void orphans_take_over(void) {
    bool has_children = false;
    children_each(note_child, &has_children);
    takes_over = !has_children && children_take_over();
    if (!takes_over) {
        log_event(LOG_INFO, "orphans.left", "reason=%s",
                  has_children ? "this process has children of another program"
                               : "the kernel has no subreapers");
    }
}

void orphans_know(pid_t worker) {
    (void)map_put(&known, worker, &known);
}

void orphans_forget(pid_t worker) {
    (void)map_remove(&known, worker);
    if (known.count == 0) {
        map_finish(&known);
    }
}

static void end_stray(void *context, pid_t child) {
    bool *found = context;
    if (map_get(&known, child) != NULL) {
        return;
    }
    if (waitpid(child, NULL, WNOHANG | __WALL) != 0) {
        *found = true; /* it was dead: what it left may be ours by now */
        return;
    }
    if (kill(child, SIGKILL) == 0) {
        *found = true;
        if (child != logged) {
            logged = child;
            log_event(LOG_INFO, "orphan.killed", "pid=%d", (int)child);
        }
    } /* EPERM: it changed its user, and nobody here can end it */
}

bool orphans_are_gone(void) {
    if (!takes_over) {
        return true;
    }
    if (!children_look_begin()) {
        return false;
    }
    bool found = false;
    children_each(end_stray, &found);
    children_look_end();
    return !found;
}
