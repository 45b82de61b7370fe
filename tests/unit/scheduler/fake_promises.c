/* fake_promises.c - what the protocol asks of a client whatever the store answers: checked at each call it sends.
 *
 * A claim of a task is named by one call at a time. An end that was sent, and of which nobody knows whether it was committed, is sent
 * again as it was.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fake_client.h"

static bool is_same_claim(const struct store_chain *a, const struct store_chain *b) {
    return a->task == b->task && a->claim == b->claim;
}

static bool call_names(const struct fake_call *call, const struct store_chain *chain) {
    for (int i = 0; i < call->tick.chain_count; i++) {
        if (is_same_claim(&call->tick.chains[i], chain)) {
            return true;
        }
    }
    for (int i = 0; i < call->effects.count; i++) {
        if (is_same_claim(&call->effects.effects[i].chain, chain)) {
            return true;
        }
    }
    return false;
}

static struct fake_open *find_open(struct fake_client *client, const struct store_chain *chain) {
    LIST_EACH(link, &client->open) {
        struct fake_open *open = LIST_ENTRY(link, struct fake_open, link);
        if (open->task == chain->task && open->claim == chain->claim) {
            return open;
        }
    }
    return NULL;
}

static void remove_open(struct fake_open *open) {
    if (open != NULL) {
        list_remove(&open->link);
        free(open);
    }
}

static void check_end(struct fake_client *client, const struct store_chain *chain) {
    const struct fake_open *open = find_open(client, chain);
    if (open == NULL) {
        return;
    }
    bool same = chain->ending == open->ending && chain->step + chain->count == open->end_step;
    bool refused = chain->kind != NULL && strcmp(chain->kind, "output") == 0;
    bool given_back = client->killed && open->effect && chain->ending == STORE_RELEASE;
    /* One that never ends well is blamed at last: if it was committed after all, the fence refuses the shorter chain. */
    bool blamed = open->effect && chain->kind != NULL && strcmp(chain->kind, "statement") == 0 &&
                  chain->step + chain->count == open->end_step - 1;
    if (!same && !refused && !given_back && !blamed) {
        store_broken(client->store, "task %lld: ending %d at step %d was sent, then %d at step %d", (long long)chain->task,
                     (int)open->ending, open->end_step, (int)chain->ending, chain->step + chain->count);
    }
}

static void check_chain(struct fake_client *client, const struct fake_call *sent, const struct store_chain *chain) {
    LIST_EACH(link, &client->calls) {
        const struct fake_call *other = LIST_ENTRY(link, struct fake_call, link);
        if (other != sent && !other->answered && call_names(other, chain)) {
            store_broken(client->store, "task %lld is named by two calls at a time", (long long)chain->task);
        }
    }
    check_end(client, chain);
}

void promises_on_send(struct fake_client *client, const struct fake_call *call) {
    for (int i = 0; i < call->tick.chain_count; i++) {
        const struct store_chain *chain = &call->tick.chains[i];
        check_chain(client, call, chain);
        for (int k = 0; k < i; k++) {
            if (call->tick.chains[k].task == chain->task) {
                store_broken(client->store, "task %lld is in a tick twice", (long long)chain->task);
            }
        }
    }
    for (int i = 0; i < call->effects.count; i++) {
        check_chain(client, call, &call->effects.effects[i].chain);
    }
}

static void note_open(struct fake_client *client, const struct store_chain *chain, bool effect) {
    if (find_open(client, chain) != NULL) {
        return;
    }
    struct fake_open *open = mem_alloc(sizeof *open);
    *open = (struct fake_open){.task = chain->task,
                               .claim = chain->claim,
                               .ending = chain->ending,
                               .end_step = chain->step + chain->count,
                               .effect = effect};
    list_append(&client->open, &open->link);
}

void promises_on_answer(struct fake_client *client, const struct fake_call *call) {
    for (int i = 0; i < call->tick.chain_count; i++) {
        const struct store_chain *chain = &call->tick.chains[i];
        if (call->code == STATUS_OK && call->verdicts[i].answer != STORE_BUSY) {
            remove_open(find_open(client, chain));
        } else if (call->code == STATUS_UNCERTAIN && chain->ending != STORE_STAY) {
            note_open(client, chain, false);
        }
    }
    for (int i = 0; i < call->effects.count; i++) {
        const struct store_chain *chain = &call->effects.effects[i].chain;
        if (call->code == STATUS_UNCERTAIN) {
            note_open(client, chain, true);
        } else if (call->code == STATUS_OK || call->code == STATUS_INVALID || call->code == STATUS_TIMEOUT) {
            remove_open(find_open(client, chain));
        }
    }
}

void promises_forget(struct fake_client *client) {
    LIST_EACH_SAFE(link, after, &client->open) {
        remove_open(LIST_ENTRY(link, struct fake_open, link));
    }
}
