/* exits.c - what is expected is computed from the rule as design and model state it, not from the
 * SQL. */
#include "exits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const exit_way_names[] = {
    [EXIT_NEXT_MID] = "next (mid)",
    [EXIT_NEXT_LAST] = "next (last)",
    [EXIT_ROUTE] = "route",
    [EXIT_FINISH] = "finish",
    [EXIT_DELAYED] = "delayed",
    [EXIT_FAILED] = "failed",
    [EXIT_RELEASE] = "release",
    [EXIT_CRASH] = "crash",
    [EXIT_TIMEOUT] = "timeout",
    [EXIT_RESCUE] = "rescue",
    [EXIT_RESCUE_NO_NODE] = "rescue without a node",
    [EXIT_QUARANTINE] = "quarantine",
    [EXIT_RELEASE_UNKNOWN] = "release_unknown",
    [EXIT_DEAD_PEER] = "dead peer",
};

static const char *const change_names[] = {
    [CHANGE_NONE] = "nothing",
    [CHANGE_SUBMIT] = "submit",
    [CHANGE_SUBMIT_TWICE] = "submit twice",
    [CHANGE_CANCEL] = "cancel",
    [CHANGE_CANCEL_SUBMIT] = "cancel, submit",
    [CHANGE_SUBMIT_CANCEL] = "submit, cancel",
};

static const char *const moment_names[] = {
    [BEFORE_CLAIM] = "before the claim",         [AFTER_CLAIM] = "after the claim",
    [AFTER_STAY] = "after the first transition", [BEFORE_EXIT] = "before the exit",
    [WITHIN_EXIT] = "within the exit",           [AFTER_EXIT] = "after the exit",
};

/* The row as the rule has it. */
struct model {
    const char *status;
    int stage, attempt, crashes, rescues, superseded;
    int64_t version, claimed_version, done_version;
    bool wish;
};

struct exit_case {
    enum exit_way way;
    enum change change;
    int64_t task, node, claim;
    int64_t finished_version; /* 0: none */
    struct model model;
};

/* ---- changes ---- */

static void model_submit(struct model *model) {
    model->version++;
    model->wish = false;
    if (strcmp(model->status, "running") != 0) {
        model->status = "ready";
        model->stage = STAGE_A;
        model->attempt = model->crashes = model->rescues = 0;
    }
}

static void model_cancel(struct model *model) {
    if (strcmp(model->status, "running") == 0) {
        model->wish = true;
    } else if (strcmp(model->status, "done") != 0) {
        model->status = "cancelled";
    }
}

static void apply_change(struct world *world, void *context) {
    struct exit_case *it = context;
    static const char *const sequences[] = {
        [CHANGE_NONE] = "",    [CHANGE_SUBMIT] = "s",         [CHANGE_SUBMIT_TWICE] = "ss",
        [CHANGE_CANCEL] = "c", [CHANGE_CANCEL_SUBMIT] = "cs", [CHANGE_SUBMIT_CANCEL] = "sc",
    };
    for (const char *at = sequences[it->change]; *at != '\0'; at++) {
        if (*at == 's') {
            world_resubmit(world, it->task);
            model_submit(&it->model);
        } else {
            world_cancel(world, it->task);
            model_cancel(&it->model);
        }
    }
}

/* ---- exits ---- */

static bool is_rescue(enum exit_way way) {
    return way == EXIT_RESCUE || way == EXIT_RESCUE_NO_NODE || way == EXIT_QUARANTINE ||
           way == EXIT_DEAD_PEER;
}

/* After the stay the task is at stage b, step 1. */
static struct move exit_move(const struct exit_case *it) {
    struct move move = {.task = it->task,
                        .claim = it->claim,
                        .step = 1,
                        .first = STAGE_B,
                        .ending = "next",
                        .output = "2"};
    switch (it->way) {
    case EXIT_NEXT_MID:
        move.count = 1;
        break;
    case EXIT_NEXT_LAST:
        move.count = 2;
        break;
    case EXIT_ROUTE:
        move.count = 1;
        move.ending = "route";
        move.route = STAGE_A + 1;
        break;
    case EXIT_FINISH:
        move.count = 1;
        move.ending = "finish";
        break;
    case EXIT_DELAYED:
    case EXIT_TIMEOUT:
        move.ending = "delayed";
        move.delay_ms = 3600000;
        move.attempts = 1;
        move.kind = it->way == EXIT_TIMEOUT ? "timeout" : "error";
        move.reason = "why";
        break;
    case EXIT_FAILED:
        move.ending = "failed";
        move.attempts = 1;
        move.kind = "permanent";
        move.reason = "why";
        break;
    case EXIT_RELEASE:
        move.ending = "ready";
        break;
    case EXIT_CRASH:
        move.ending = "ready";
        move.crashes = 1;
        move.kind = "crash";
        move.reason = "signal 11";
        break;
    case EXIT_RESCUE:
    case EXIT_RESCUE_NO_NODE:
    case EXIT_QUARANTINE:
    case EXIT_RELEASE_UNKNOWN:
    case EXIT_DEAD_PEER:
    case EXIT_WAYS:
        break;
    }
    return move;
}

/* The exit rule: the wish, the newer version, what the run wants. */
static void model_exit(struct exit_case *it) {
    struct model *model = &it->model;
    struct move move = exit_move(it);
    if (move.count > 0) {
        model->attempt = model->crashes = model->rescues = 0;
    }
    model->attempt += move.attempts;
    model->crashes += move.crashes;
    model->rescues += is_rescue(it->way);
    bool newer = model->version != model->claimed_version;
    bool done = it->way == EXIT_NEXT_LAST || it->way == EXIT_FINISH;
    model->stage = done ? STAGE_C : it->way == EXIT_ROUTE ? STAGE_A : STAGE_B + move.count;
    model->status = done                                                   ? "done"
                    : it->way == EXIT_DELAYED || it->way == EXIT_TIMEOUT   ? "delayed"
                    : it->way == EXIT_FAILED || it->way == EXIT_QUARANTINE ? "failed"
                                                                           : "ready";
    bool by_node = !is_rescue(it->way) && it->way != EXIT_RELEASE_UNKNOWN;
    if (done) {
        it->finished_version = it->way == EXIT_FINISH ? model->claimed_version : 0;
        model->done_version = model->claimed_version;
        model->superseded = 0;
    } else if (newer && !model->wish && by_node) {
        model->superseded++;
    }
    if (model->wish) {
        model->status = "cancelled";
    } else if (newer) {
        model->status = "ready";
        model->stage = STAGE_A;
        model->attempt = model->crashes = model->rescues = 0;
    }
    model->wish = false;
}

static void prepare_exit(struct world *world, const struct exit_case *it) {
    switch (it->way) {
    case EXIT_RESCUE:
    case EXIT_QUARANTINE:
        world_end_lease(world, it->node);
        break;
    case EXIT_RESCUE_NO_NODE:
        world_sql(world, world->eye, "delete from pgstage.node where id = %" PRId64, it->node);
        break;
    case EXIT_DEAD_PEER: {
        char nodes[32];
        snprintf(nodes, sizeof nodes, "{%" PRId64 "}", it->node);
        const struct db_result *ended =
            world_call(world, world->eye, &sql_end_nodes, 2, nodes, "host");
        world_expect(world, ended != NULL && db_rows(ended) == 1, "the peer was not ended");
        break;
    }
    case EXIT_NEXT_MID:
    case EXIT_NEXT_LAST:
    case EXIT_ROUTE:
    case EXIT_FINISH:
    case EXIT_DELAYED:
    case EXIT_FAILED:
    case EXIT_RELEASE:
    case EXIT_CRASH:
    case EXIT_TIMEOUT:
    case EXIT_RELEASE_UNKNOWN:
    case EXIT_WAYS:
        break;
    }
}

static bool leave_running(struct world *world, struct exit_case *it, enum moment moment) {
    void (*meanwhile)(struct world *, void *) = moment == WITHIN_EXIT ? apply_change : NULL;
    prepare_exit(world, it);
    if (is_rescue(it->way)) {
        const struct db_result *rescued =
            meanwhile != NULL ? world_race(world, &sql_rescue, meanwhile, it, 1, "500")
                              : world_rescue(world);
        EXPECT(world, rescued != NULL && db_rows(rescued) == 1, "it was not rescued");
    } else if (it->way == EXIT_RELEASE_UNKNOWN) {
        char node[24];
        snprintf(node, sizeof node, "%" PRId64, it->node);
        const struct db_result *released =
            meanwhile != NULL
                ? world_race(world, &sql_release_unknown, meanwhile, it, 3, node, "{}", "{}")
                : world_release(world, it->node, 0, 0);
        EXPECT(world, released != NULL && db_rows(released) == 1, "it was not released");
    } else {
        struct move move = exit_move(it);
        struct verdict verdict = meanwhile != NULL
                                     ? world_race_complete(world, &move, meanwhile, it)
                                     : world_complete(world, world->one, &move);
        EXPECT(world, strcmp(verdict.answer, "accepted") == 0, "the exit was %s", verdict.answer);
        /* Sent again, as after a lost answer, it changes nothing. */
        verdict = world_complete(world, world->one, &move);
        EXPECT(world, strcmp(verdict.answer, "applied") == 0, "the exit sent again was %s",
               verdict.answer);
    }
    model_exit(it);
    return true;
}

/* ---- checks ---- */

static bool row_is_as_expected(struct world *world, const struct exit_case *it, const char *when) {
    struct row row = world_row(world, it->task);
    const struct model *model = &it->model;
    EXPECT(world, strcmp(row.status, model->status) == 0, "%s: status %s, expected %s", when,
           row.status, model->status);
    EXPECT(world, row.stage == model->stage, "%s: stage %d, expected %d", when, row.stage,
           model->stage);
    EXPECT(world, row.version == model->version, "%s: version %d, expected %d", when,
           (int)row.version, (int)model->version);
    EXPECT(world,
           row.attempt == model->attempt && row.crashes == model->crashes &&
               row.rescues == model->rescues,
           "%s: %d attempts, %d crashes, %d rescues, expected %d, %d, %d", when, row.attempt,
           row.crashes, row.rescues, model->attempt, model->crashes, model->rescues);
    EXPECT(world, row.superseded == model->superseded, "%s: superseded %d, expected %d", when,
           row.superseded, model->superseded);
    EXPECT(world, row.done_version == model->done_version, "%s: version %d was done, expected %d",
           when, (int)row.done_version, (int)model->done_version);
    EXPECT(world, row.has_wish == model->wish, "%s: wish %d", when, row.has_wish);
    return world_is_sound(world);
}

static bool notes_are_as_expected(struct world *world, const struct exit_case *it) {
    struct move move = exit_move(it);
    int64_t expected = move.kind != NULL ||
                       (it->way == EXIT_QUARANTINE && strcmp(it->model.status, "failed") == 0);
    int64_t noted =
        world_int(world, "select count(*) from pgstage.failure where task = %" PRId64, it->task);
    EXPECT(world, noted == expected, "%d failures noted, expected %d", (int)noted, (int)expected);
    bool has_error =
        expected == 1 && strcmp(it->model.status, "done") != 0 && it->model.stage != STAGE_A;
    EXPECT(world, world_row(world, it->task).has_error == has_error,
           "the row's error text is wrong");
    return true;
}

static bool ends_well(struct world *world, const struct exit_case *it) {
    world_rest(world);
    struct row row = world_row(world, it->task);
    bool cancelled = strcmp(it->model.status, "cancelled") == 0;
    bool failed = strcmp(it->model.status, "failed") == 0;
    const char *expected = cancelled ? "cancelled" : failed ? "failed" : "done";
    EXPECT(world, strcmp(row.status, expected) == 0, "it ends %s, expected %s", row.status,
           expected);
    if (strcmp(expected, "done") == 0) {
        EXPECT(world, row.done_version == row.version, "version %d is the newest, %d was done",
               (int)row.version, (int)row.done_version);
        int64_t outputs =
            world_int(world, "select count(*) from pgstage.output where task = %" PRId64, it->task);
        int64_t newest = world_int(world,
                                   "select count(*) from pgstage.output where task = %" PRId64
                                   " and version = %" PRId64,
                                   it->task, row.version);
        /* Nothing came after a finish: the last stage was skipped. */
        bool skipped = it->way == EXIT_FINISH && row.version == it->finished_version;
        int64_t expected_count = skipped ? STAGE_COUNT - 1 : STAGE_COUNT;
        EXPECT(world, newest == expected_count && outputs == expected_count,
               "%d outputs, %d of the newest version", (int)outputs, (int)newest);
    }
    return world_is_sound(world);
}

/* ---- one case ---- */

static bool run_case(struct world *world, struct exit_case *it, enum moment moment) {
    char key[32];
    snprintf(key, sizeof key, "key%d", ++world->last_key);
    it->node = 100000 + world->last_key;
    world_sql(world, world->eye,
              "insert into pgstage.node (id, host, lock_path, pid, lease_until)"
              " values (%" PRId64 ", 'host', '/l', 1, now() + interval '1 hour')",
              it->node);
    it->task = world_submit(world, key);
    it->model = (struct model){.status = "ready", .version = 1};
    if (moment == BEFORE_CLAIM) {
        apply_change(world, it);
    }
    int count = 0;
    it->claim = world_claim(world, it->node, STAGE_A, 10, &count);
    bool claimable = strcmp(it->model.status, "ready") == 0;
    EXPECT(world, count == claimable, "%d rows claimed", count);
    if (!claimable) {
        return row_is_as_expected(world, it, "before the claim") && ends_well(world, it);
    }
    it->model.status = "running";
    it->model.claimed_version = it->model.version;
    EXPECT(world, world_row(world, it->task).claimed_version == it->model.version,
           "another version was claimed");
    if (moment == AFTER_CLAIM) {
        apply_change(world, it);
    }
    struct move stay = {
        .task = it->task, .claim = it->claim, .count = 1, .ending = "stay", .output = "1"};
    struct verdict verdict = world_complete(world, world->one, &stay);
    EXPECT(world,
           strcmp(verdict.answer, "accepted") == 0 && strcmp(verdict.status, "running") == 0 &&
               verdict.step == 1,
           "the first transition was %s", verdict.answer);
    it->model.stage = STAGE_B;
    /* Counters of earlier runs at this stage, to see what becomes of them. */
    it->model.attempt = 2;
    it->model.crashes = 1;
    it->model.rescues = it->way == EXIT_QUARANTINE ? 9 : 2;
    world_sql(world, world->eye,
              "update pgstage.task set attempt = 2, crashes = 1, rescues = %d where id = %" PRId64,
              it->model.rescues, it->task);
    if (moment == AFTER_STAY) {
        apply_change(world, it);
        verdict = world_complete(world, world->one, &stay);
        EXPECT(world, strcmp(verdict.answer, "accepted") == 0 && verdict.step == 1,
               "sent again it was %s", verdict.answer);
    }
    if (moment == BEFORE_EXIT) {
        apply_change(world, it);
    }
    if (!row_is_as_expected(world, it, "running") || !leave_running(world, it, moment)) {
        return false;
    }
    if (!row_is_as_expected(world, it, "after the exit") || !notes_are_as_expected(world, it)) {
        return false;
    }
    if (moment == AFTER_EXIT) {
        apply_change(world, it);
        if (!row_is_as_expected(world, it, "after the change")) {
            return false;
        }
    }
    return ends_well(world, it);
}

bool exits_hold_one(struct world *world, enum exit_way way, enum change change,
                    enum moment moment) {
    struct exit_case it = {.way = way, .change = change};
    world_forget_results(world);
    bool held = run_case(world, &it, moment) && world->why[0] == '\0';
    if (!held) {
        char why[sizeof world->why];
        snprintf(why, sizeof why, "%s", world->why);
        snprintf(world->why, sizeof world->why, "%s, %s %s: %.400s", exit_way_names[way],
                 change_names[change], moment_names[moment], why);
    }
    return held;
}

bool exits_hold(struct world *world, enum exit_way way) {
    for (enum change change = 0; change < CHANGES; change++) {
        for (enum moment moment = 0; moment < MOMENTS; moment++) {
            if (!exits_hold_one(world, way, change, moment)) {
                return false;
            }
        }
    }
    return true;
}
