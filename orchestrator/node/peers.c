/* peers.c - nodes of this host that died: their workers are ended if need be, their claims freed without their lease.
 *
 * All of this is read from files and /proc, so it is the thread pool's.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/require.h"
#include "node/abandoned.h"
#include "node/private.h"

enum { PEERS_AT_ONCE = 64 };

struct rescue {
    uv_work_t work;
    struct process *process;
    struct node *node; /* may be gone when the work is done */
    char *folder;
    int64_t peers[PEERS_AT_ONCE];
    char *locks[PEERS_AT_ONCE]; /* owned */
    int peer_count;
    int64_t dead[PEERS_AT_ONCE];
    int dead_count;
};

static void on_ended_dead(void *context, const struct store_done_answer *answer) {
    struct node *node = context;
    if (answer->code == STATUS_OK && answer->count > 0) {
        log_event(LOG_INFO, "claims.rescued", "count=%lld reason=dead", (long long)answer->count);
        scheduler_woken(node->scheduler);
    }
}

static void end_the_dead(struct node *node, const struct rescue *rescue) {
    struct error err = ERROR_NONE;
    if (rescue->dead_count > 0 && node->store.end_peers(node->store.context, host_identity(), rescue->dead_count,
                                                        rescue->dead, on_ended_dead, node, &err) != STATUS_OK) {
        log_event(LOG_INFO, "node.peers", "reason=%s", log_text(err.text)); /* their leases end by themselves */
    }
}

static void find_the_dead(uv_work_t *work) {
    struct rescue *rescue = work->data;
    if (rescue->peer_count == 0) {
        abandoned_end_all(rescue->folder);
    }
    for (int i = 0; i < rescue->peer_count; i++) {
        abandoned_end(rescue->locks[i]);
        if (rescue->dead_count < PEERS_AT_ONCE && host_lock_is_dead(rescue->locks[i])) {
            rescue->dead[rescue->dead_count++] = rescue->peers[i];
        }
    }
}

static void rescue_free(struct rescue *rescue) {
    for (int i = 0; i < rescue->peer_count; i++) {
        free(rescue->locks[i]);
    }
    free(rescue->folder);
    free(rescue);
}

static void on_found(uv_work_t *work, int status) {
    struct rescue *rescue = work->data;
    (void)status; /* never cancelled */
    LIST_EACH(at, &rescue->process->nodes) {
        struct node *node = LIST_ENTRY(at, struct node, link);
        if (node == rescue->node && node->state != NODE_CLOSING) {
            end_the_dead(node, rescue);
            break;
        }
    }
    rescue->process->looking_for_abandoned = false;
    rescue_free(rescue);
}

static struct rescue *rescue_new(struct node *node) {
    struct rescue *rescue = mem_alloc(sizeof *rescue);
    *rescue = (struct rescue){.process = node->process, .node = node};
    rescue->folder = mem_copy_string(node->options.lock_folder);
    rescue->work.data = rescue;
    return rescue;
}

static void rescue_begin(struct rescue *rescue) {
    rescue->process->looking_for_abandoned = true;
    int failed = uv_queue_work(&rescue->process->loop, &rescue->work, find_the_dead, on_found);
    REQUIRE(failed == 0);
}

void peers_end_dead(struct node *node, const struct store_start_answer *answer) {
    struct rescue *rescue = rescue_new(node);
    for (int i = 0; i < node->lease.dead_count; i++) {
        rescue->dead[rescue->dead_count++] = node->lease.dead[i];
    }
    node->lease.dead_count = 0;
    for (int i = 0; i < answer->peer_count && i < PEERS_AT_ONCE; i++) {
        rescue->peers[i] = answer->peers[i].node;
        rescue->locks[i] = mem_copy_string(answer->peers[i].lock_path);
        rescue->peer_count++;
    }
    if (rescue->peer_count > 0) {
        rescue_begin(rescue);
    } else {
        end_the_dead(node, rescue);
        rescue_free(rescue);
    }
}

void peers_look(struct node *node) {
    if (!node->process->looking_for_abandoned) {
        rescue_begin(rescue_new(node));
    }
}
