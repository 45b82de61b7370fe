/* try_verdict.c - what a node would make of the trial's run: where the task goes, and what a failure costs it. */
#include "base/random.h"
#include "base/require.h"
#include "cli/try.h"
#include "scheduler/plan.h"

static const char *text_of(struct trial *trial, struct pool_text text) {
    return text.data == NULL ? NULL : arena_copy(&trial->arena, text.data, text.length);
}

static const char *outcome_of(enum pool_end end) {
    static const char *const words[] = {
        [POOL_OK] = "ok",           [POOL_RETRY] = "retry",     [POOL_FAIL] = "fail",
        [POOL_CRASH] = "crash",     [POOL_TIMEOUT] = "timeout", [POOL_LOST] = "lost",
        [POOL_INTERRUPTED] = "interrupted", [POOL_RETURNED] = "refused",
    };
    return words[end];
}

/* ---- a failure ---------------------------------------------------------------------------------------------------- */

static void plan(const struct trial *trial, enum pool_end end, struct trial_verdict *verdict) {
    struct plan_failure_in in = {
        .end = end,
        .kind = verdict->kind,
        .attempt = trial->task.attempt - 1,
        .alone = trial->crashes >= PLAN_ALONE_AFTER || trial->rescues >= PLAN_ALONE_AFTER,
        .max_attempts = trial->stage->retry.attempts,
        .backoff = trial->stage->retry.backoff,
    };
    in.backoff.jitter_percent = 0; /* what is said is the middle */
    struct plan_failure plan = plan_failure(&in, &random_system);
    verdict->next = plan.ending == STORE_FAILED    ? NEXT_FAILED
                    : plan.ending == STORE_DELAYED ? NEXT_RETRY
                    : plan.kind != NULL            ? NEXT_AGAIN
                                                   : NEXT_NOWHERE;
    verdict->delay_ms = plan.delay_ms;
    verdict->next_stage = verdict->next == NEXT_RETRY || verdict->next == NEXT_AGAIN ? trial->stage->name : NULL;
    verdict->kind = plan.kind;
}

static void judge_sql(struct trial *trial, struct trial_verdict *verdict) {
    bool late = trial->sql_error.code == STATUS_TIMEOUT;
    int number = trial->failed_statement;
    enum pool_end end = late ? POOL_TIMEOUT : POOL_RETRY;
    *verdict = (struct trial_verdict){.outcome = outcome_of(end)};
    verdict->reason = number == 0 || trial->statement_count == 1
                          ? arena_copy_string(&trial->arena, trial->sql_error.text)
                          : arena_format(&trial->arena, "statement %d: %s", number, trial->sql_error.text);
    plan(trial, end, verdict);
    verdict->kind = late ? "timeout" : "statement";
}

static void judge_end(struct trial *trial, struct trial_verdict *verdict) {
    const struct pool_outcome *outcome = &trial->run.outcome;
    const char *message = text_of(trial, outcome->message);
    *verdict = (struct trial_verdict){.outcome = outcome_of(outcome->end),
                                      .kind = outcome->kind,
                                      .reason = message == NULL ? "" : message,
                                      .last_output = text_of(trial, outcome->last_output)};
    if (trial->run.stopped) {
        verdict->outcome = verdict->kind = "interrupted";
    } else if (outcome->end == POOL_RETURNED) {
        verdict->kind = "refused";
    } else {
        plan(trial, outcome->end, verdict);
    }
}

/* ---- a run that ended well ---------------------------------------------------------------------------------------- */

static void go_on(const struct trial *trial, struct trial_verdict *verdict) {
    bool last = trial->position + 1 == trial->pipeline->stage_count;
    verdict->next = last ? NEXT_DONE : NEXT_STAGE;
    verdict->next_stage = last ? NULL : trial->pipeline->stages[trial->position + 1].name;
}

/* In the words of a node. */
static const char *explain_route(struct trial *trial, const char *target) {
    struct buf why;
    buf_init(&why, SIZE_MAX);
    buf_append_format(&why, "it was routed to \"%s\", which is no stage of its pipeline; the stages are: ", target);
    for (int i = 0; i < trial->pipeline->stage_count; i++) {
        buf_append_format(&why, "%s%s", i == 0 ? "" : ", ", trial->pipeline->stages[i].name);
    }
    const char *text = arena_copy(&trial->arena, why.data, why.length);
    buf_finish(&why);
    return text;
}

static void judge_route(struct trial *trial, struct trial_verdict *verdict) {
    const char *target = text_of(trial, trial->run.outcome.target);
    verdict->next = NEXT_ROUTE;
    verdict->next_stage = target;
    if (pipeline_find_stage(trial->pipeline, target) >= 0) {
        return;
    }
    *verdict = (struct trial_verdict){.outcome = outcome_of(POOL_FAIL)};
    verdict->reason = explain_route(trial, target == NULL ? "" : target);
    plan(trial, POOL_FAIL, verdict);
}

static void judge_flow(struct trial *trial, struct trial_verdict *verdict) {
    const struct pool_outcome *outcome = &trial->run.outcome;
    switch (outcome->flow) {
    case POOL_GO_ON:
        go_on(trial, verdict);
        break;
    case POOL_ROUTE:
        judge_route(trial, verdict);
        break;
    case POOL_FINISH:
        verdict->next = NEXT_FINISH;
        break;
    case POOL_SNOOZE:
        verdict->next = NEXT_SNOOZE;
        verdict->next_stage = trial->stage->name;
        verdict->delay_ms = outcome->delay_ms;
        break;
    }
}

struct trial_verdict trial_judge(struct trial *trial) {
    struct trial_verdict verdict = {.outcome = "ok"};
    bool is_sql = trial->stage->kind == STAGE_SQL;
    if (!is_sql && trial->run.outcome.end != POOL_OK) {
        judge_end(trial, &verdict);
    } else if (trial->sql_failed) {
        judge_sql(trial, &verdict);
    } else if (is_sql) {
        go_on(trial, &verdict);
    } else {
        judge_flow(trial, &verdict);
    }
    return verdict;
}
