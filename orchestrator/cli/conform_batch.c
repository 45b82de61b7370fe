/* conform_batch.c - checks of what only a stage with `batch:` sends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/conform_checks.h"

enum { PAYLOAD_SIZE = 64 };

struct batch {
    struct talk_task *tasks;
    char (*payloads)[PAYLOAD_SIZE];
    int count;
};

/* As many tasks as may be, which echo their number. */
static struct batch make_batch(const struct talk *talk) {
    size_t count = (size_t)talk->batch;
    struct batch batch = {mem_alloc(count * sizeof *batch.tasks), mem_alloc(count * sizeof *batch.payloads), talk->batch};
    for (int i = 0; i < batch.count; i++) {
        snprintf(batch.payloads[i], PAYLOAD_SIZE, "{\"do\":\"echo\",\"value\":%d}", i);
        batch.tasks[i].payload = batch.payloads[i];
    }
    return batch;
}

static void finish_batch(struct batch *batch) {
    free(batch->tasks);
    free(batch->payloads);
}

static int find_task(const struct batch *batch, const json_t *result) {
    const char *id = json_string_value(json_object_get(result, "id"));
    for (int i = 0; i < batch->count; i++) {
        if (strcmp(batch->tasks[i].id, id) == 0) {
            return i;
        }
    }
    return -1;
}

/* Wants a result for each: wanted[i], or the echo of its number where that is NULL or not there. */
static bool want_results(struct talk *talk, const struct batch *batch, const char *const *wanted, int wanted_count) {
    for (int left = batch->count; left > 0; left--) {
        json_t *result = talk_result(talk);
        if (result == NULL) {
            return false;
        }
        int index = batch->count == 1 ? 0 : find_task(batch, result); /* a batch of one may fail by its own id */
        char members[PAYLOAD_SIZE];
        snprintf(members, sizeof members, "{\"output\":%d}", index);
        bool same = index >= 0 ? talk_compare(talk, result, index < wanted_count && wanted[index] != NULL ? wanted[index] : members)
                               : talk_fail(talk, "a result for each task of the batch", "one for the batch");
        json_decref(result);
        if (!same) {
            return false;
        }
    }
    return true;
}

bool check_batch_of_many(struct talk *talk) {
    struct batch batch = make_batch(talk);
    bool good = talk_send(talk, batch.tasks, batch.count, "") && want_results(talk, &batch, NULL, 0);
    finish_batch(&batch);
    return good;
}

bool check_batch_mixed(struct talk *talk) {
    static const char *const wanted[] = {"{\"outcome\":\"fail\",\"message\":\"m\"}", NULL,
                                         "{\"outcome\":\"retry\",\"message\":\"n\"}"};
    struct batch batch = make_batch(talk);
    batch.tasks[0].payload = "{\"do\":\"fail\",\"message\":\"m\"}";
    if (batch.count > 2) {
        batch.tasks[2].payload = "{\"do\":\"retry\",\"message\":\"n\"}";
    }
    bool good = talk_send(talk, batch.tasks, batch.count, "") && want_results(talk, &batch, wanted, 3);
    finish_batch(&batch);
    return good;
}

bool check_batch_failed(struct talk *talk) {
    static const char members[] = "{\"outcome\":\"retry\",\"message\":\"the model is gone\"}";
    struct batch batch = make_batch(talk);
    batch.tasks[batch.count - 1].payload = "{\"do\":\"fail_batch\",\"message\":\"the model is gone\"}";
    bool good = talk_send(talk, batch.tasks, batch.count, ""), failed = false;
    while (good && !failed) {
        json_t *result = talk_result(talk);
        const char *id = json_string_value(json_object_get(result, "id"));
        failed = id != NULL && strcmp(id, talk->batch_id) == 0;
        good = result != NULL && (!failed || talk_compare(talk, result, members));
        bool one_by_one = good && !failed && json_object_size(talk->open) == 0;
        json_decref(result);
        if (one_by_one) {
            good = talk_fail(talk, "one result with the batch's id", "a result for each task");
        }
    }
    finish_batch(&batch);
    return good && talk_expect(talk, "{\"do\":\"nothing\"}", "{}");
}

bool check_batch_tell(struct talk *talk) {
    static const char *const wanted[] = {"{\"outcome\":\"retry\",\"message\":\"cancelled\"}"};
    struct batch batch = make_batch(talk);
    batch.tasks[0].payload = "{\"do\":\"wait_cancel\"}";
    bool good = talk_send(talk, batch.tasks, batch.count, "") && talk_tell(talk, batch.tasks[0].id, true, false);
    good = good && want_results(talk, &batch, wanted, 1);
    finish_batch(&batch);
    return good;
}
