/* chains.c - one getter a column: the arrays of complete.sql are columns of a table whose rows are
 * chains. */
#include "queue/chains.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "db/array.h"

/* Longer delays are no use to anybody, and their sum with a date must stay a date. */
static const int64_t DELAY_MAX_MS = INT64_C(100) * 365 * 24 * 3600 * 1000;

static int compare_tasks(const void *left, const void *right) {
    int64_t a = ((const struct chain_ref *)left)->chain->task;
    int64_t b = ((const struct chain_ref *)right)->chain->task;
    return a < b ? -1 : a > b;
}

enum status chains_sort(struct chain_list *list, struct error *err) {
    if (list->count > 1) {
        qsort(list->refs, (size_t)list->count, sizeof *list->refs, compare_tasks);
    }
    for (int i = 1; i < list->count; i++) {
        if (list->refs[i].chain->task == list->refs[i - 1].chain->task) {
            return error_set(err, STATUS_INVALID, "task %lld is in the request twice",
                             (long long)list->refs[i].chain->task);
        }
    }
    return STATUS_OK;
}

typedef int64_t (*int_getter)(const struct store_chain *chain);
typedef const char *(*text_getter)(const struct store_chain *chain);

static int64_t get_task(const struct store_chain *chain) {
    return chain->task;
}
static int64_t get_claim(const struct store_chain *chain) {
    return chain->claim;
}
static int64_t get_first_step(const struct store_chain *chain) {
    return chain->step;
}
static int64_t get_last_step(const struct store_chain *chain) {
    return chain->step + chain->count - 1;
}
static int64_t get_end_step(const struct store_chain *chain) {
    return chain->step + chain->count;
}
static int64_t get_count(const struct store_chain *chain) {
    return chain->count;
}
static int64_t get_first_stage(const struct store_chain *chain) {
    return chain->first_stage;
}
static int64_t get_revision(const struct store_chain *chain) {
    return chain->revision;
}
static int64_t get_attempts(const struct store_chain *chain) {
    return chain->attempts;
}
static int64_t get_crashes(const struct store_chain *chain) {
    return chain->crashes;
}
static int64_t get_rescues(const struct store_chain *chain) {
    return chain->rescues;
}
static int64_t get_route(const struct store_chain *chain) {
    return chain->route_stage;
}
static int64_t get_delay(const struct store_chain *chain) {
    int64_t delay = chain->delay_ms > 0 ? chain->delay_ms : 0;
    return delay < DELAY_MAX_MS ? delay : DELAY_MAX_MS;
}
static const char *get_kind(const struct store_chain *chain) {
    return chain->kind;
}
static const char *get_reason(const struct store_chain *chain) {
    return chain->reason;
}
static const char *get_detail(const struct store_chain *chain) {
    return chain->detail;
}

static const char *const ending_names[] = {
    [STORE_STAY] = "stay",       [STORE_NEXT] = "next",     [STORE_RELEASE] = "ready",
    [STORE_DELAYED] = "delayed", [STORE_FAILED] = "failed", [STORE_ROUTE] = "route",
    [STORE_FINISH] = "finish",   [STORE_KEEP] = "keep",
};

static struct db_param ints(struct script *script, const struct chain_list *list, int_getter get) {
    array_begin(&script->literal);
    for (int i = 0; i < list->count; i++) {
        array_add_int(&script->literal, get(list->refs[i].chain));
    }
    return script_take_array(script);
}

static struct db_param tasks_with_progress(struct script *script, const struct chain_list *list) {
    array_begin(&script->literal);
    for (int i = 0; i < list->count; i++) {
        if (list->refs[i].chain->has_progress) {
            array_add_int(&script->literal, list->refs[i].chain->task);
        }
    }
    return script_take_array(script);
}

static struct db_param endings(struct script *script, const struct chain_list *list) {
    array_begin(&script->literal);
    for (int i = 0; i < list->count; i++) {
        const char *name = ending_names[list->refs[i].chain->ending];
        array_add_text(&script->literal, name, strlen(name));
    }
    return script_take_array(script);
}

static struct db_param texts(struct script *script, const struct chain_list *list, text_getter get,
                             size_t max_bytes) {
    struct buf clean;
    buf_init(&clean, max_bytes);
    array_begin(&script->literal);
    for (int i = 0; i < list->count; i++) {
        const char *text = get(list->refs[i].chain);
        if (text == NULL) {
            array_add_null(&script->literal);
            continue;
        }
        buf_clear(&clean);
        utf8_sanitize(&clean, text, strlen(text), max_bytes);
        array_add_text(&script->literal, clean.data, clean.length);
    }
    buf_finish(&clean);
    return script_take_array(script);
}

static int count_outputs(const struct chain_list *list) {
    int count = 0;
    for (int i = 0; i < list->count; i++) {
        const struct store_chain *chain = list->refs[i].chain;
        for (int k = 0; k < chain->count; k++) {
            count += chain->outputs != NULL && chain->outputs[k].data != NULL;
        }
    }
    return count;
}

/* A NUL would cut the parameter short, which is text: what stands for it here is refused by jsonb
 * for the same reason. */
static void add_output(struct buf *literal, const struct store_text *output) {
    if (memchr(output->data, '\0', output->length) != NULL) {
        static const char nul[] = "\"\\u0000\"";
        array_add_text(literal, nul, sizeof nul - 1);
    } else {
        array_add_text(literal, output->data, output->length);
    }
}

static struct db_param outputs_of(struct script *script, const struct chain_list *list,
                                  struct chain_outputs *outputs) {
    array_begin(&script->literal);
    int at = 0;
    for (int i = 0; i < list->count; i++) {
        const struct store_chain *chain = list->refs[i].chain;
        for (int k = 0; k < chain->count && chain->outputs != NULL; k++) {
            if (chain->outputs[k].data == NULL) {
                continue;
            }
            size_t before = script->literal.length;
            add_output(&script->literal, &chain->outputs[k]);
            /* Behind the brace or the comma. */
            outputs->items[at] = (struct chain_output){.start = at == 0 ? before : before + 1,
                                                       .end = script->literal.length,
                                                       .index = list->refs[i].index};
            at++;
        }
    }
    return script_take_array(script);
}

static void add_output_columns(struct script *script, const struct chain_list *list,
                               struct db_param *params, struct chain_outputs *outputs) {
    struct chain_outputs own = {0};
    outputs = outputs != NULL ? outputs : &own;
    outputs->count = count_outputs(list);
    outputs->items =
        arena_alloc(&script->arena, (size_t)(outputs->count + 1) * sizeof *outputs->items);
    array_begin(&script->literal);
    for (int i = 0; i < list->count; i++) {
        const struct store_chain *chain = list->refs[i].chain;
        for (int k = 0; k < chain->count && chain->outputs != NULL; k++) {
            if (chain->outputs[k].data != NULL) {
                array_add_int(&script->literal, chain->task);
            }
        }
    }
    params[0] = script_take_array(script);
    array_begin(&script->literal);
    for (int i = 0; i < list->count; i++) {
        const struct store_chain *chain = list->refs[i].chain;
        for (int k = 0; k < chain->count && chain->outputs != NULL; k++) {
            if (chain->outputs[k].data != NULL) {
                array_add_int(&script->literal, k);
            }
        }
    }
    params[1] = script_take_array(script);
    params[2] = outputs_of(script, list, outputs);
    outputs->literal = params[2].data;
}

void chains_add_complete(struct script *script, const struct chain_list *list,
                         struct chain_outputs *outputs) {
    struct db_param *params = script_add(script, &sql_complete, 19);
    params[0] = ints(script, list, get_task);
    params[1] = ints(script, list, get_claim);
    params[2] = ints(script, list, get_first_step);
    params[3] = ints(script, list, get_count);
    params[4] = ints(script, list, get_first_stage);
    params[5] = ints(script, list, get_revision);
    params[6] = endings(script, list);
    params[7] = ints(script, list, get_attempts);
    params[8] = ints(script, list, get_crashes);
    params[9] = ints(script, list, get_rescues);
    params[10] = ints(script, list, get_delay);
    params[11] = texts(script, list, get_kind, CHAIN_KIND_MAX_BYTES);
    params[12] = texts(script, list, get_reason, CHAIN_REASON_MAX_BYTES);
    params[13] = texts(script, list, get_detail, CHAIN_DETAIL_MAX_BYTES);
    add_output_columns(script, list, params + 14, outputs);
    params[17] = ints(script, list, get_route);
    params[18] = tasks_with_progress(script, list);
}

void chains_add_look(struct script *script, const struct chain_list *list) {
    struct db_param *params = script_add(script, &sql_look_at_fences, 7);
    params[0] = ints(script, list, get_task);
    params[1] = ints(script, list, get_claim);
    params[2] = ints(script, list, get_first_step);
    params[3] = ints(script, list, get_count);
    params[4] = ints(script, list, get_first_stage);
    params[5] = ints(script, list, get_revision);
    params[6] = endings(script, list);
}

void chains_add_hold(struct script *script, const struct chain_list *list) {
    struct db_param *params = script_add(script, &sql_hold_fences, 4);
    params[0] = ints(script, list, get_task);
    params[1] = ints(script, list, get_claim);
    params[2] = ints(script, list, get_first_step);
    params[3] = ints(script, list, get_last_step);
}

void chains_add_require(struct script *script, const struct chain_list *list) {
    struct db_param *params = script_add(script, &sql_require_steps, 3);
    params[0] = ints(script, list, get_task);
    params[1] = ints(script, list, get_claim);
    params[2] = ints(script, list, get_end_step);
}

static bool read_answer(const char *text, enum store_answer *answer) {
    static const char *const names[] = {
        [STORE_ACCEPTED] = "accepted",
        [STORE_APPLIED] = "applied",
        [STORE_BUSY] = "busy",
        [STORE_REFUSED] = "refused",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            *answer = (enum store_answer)i;
            return true;
        }
    }
    return false;
}

enum status chains_read_verdicts(const struct chain_list *list, const struct db_result *result,
                                 struct store_verdict *verdicts, struct error *err) {
    enum { TASK, CLAIM, ANSWER, STEP, STAGE, STATUS, COLUMNS };
    if (db_rows(result) != list->count || db_columns(result) != COLUMNS) {
        return error_set(err, STATUS_INTERNAL, "complete: %d rows for %d chains", db_rows(result),
                         list->count);
    }
    for (int row = 0; row < list->count; row++) {
        struct store_verdict *verdict = &verdicts[list->refs[row].index];
        if (db_int64(result, row, TASK) != list->refs[row].chain->task ||
            !read_answer(db_value(result, row, ANSWER), &verdict->answer)) {
            return error_set(err, STATUS_INTERNAL, "complete: row %d is of another task", row);
        }
        verdict->step = (int)db_int64(result, row, STEP);
        verdict->stage = (int)db_int64(result, row, STAGE);
        const char *status = db_value(result, row, STATUS);
        bool ours = verdict->answer == STORE_ACCEPTED || verdict->answer == STORE_APPLIED;
        verdict->done = ours && strcmp(status, "done") == 0;
        verdict->failed = ours && strcmp(status, "failed") == 0;
        /* A row that refused may run under another's claim. One that is busy told nothing. */
        verdict->running = verdict->answer == STORE_BUSY ||
                           (verdict->answer == STORE_ACCEPTED && strcmp(status, "running") == 0);
    }
    return STATUS_OK;
}
