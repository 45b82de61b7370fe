/* world_protocol.c - what producers, nodes and the leader do, one call each. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

enum { ROUNDS_MAX = 30 };

int64_t world_submit(struct world *world, const char *key) {
    char keys[128];
    snprintf(keys, sizeof keys, "{\"%s\"}", key);
    world_call(world, world->eye, &sql_submit, 7, "p", keys, "{\"{}\"}", "{2001-01-01}", "{0}",
               "{NULL}", "f");
    return world_int(world, "select id from pgstage.task where key = '%s'", key);
}

void world_resubmit(struct world *world, int64_t task) {
    const struct db_result *row = world_sql(
        world, world->eye,
        "select s.outcome from pgstage.task t, pgstage.submit_set('p', array[t.key::text],"
        " array[jsonb_build_object('v', t.version + 1)], array[t.task_updated_at + interval '1 "
        "day'],"
        " array[null]::int[], array[null]::timestamptz[], false) s where t.id = %" PRId64,
        task);
    world_expect(world,
                 row != NULL && db_rows(row) == 1 && strcmp(db_value(row, 0, 0), "updated") == 0,
                 "a newer submit was not accepted");
}

void world_cancel(struct world *world, int64_t task) {
    world_sql(world, world->eye, "select pgstage.cancel_tasks(array[%" PRId64 "])", task);
}

int64_t world_new_claim(struct world *world) {
    return 1000 + ++world->last_claim;
}

int64_t world_claim(struct world *world, int64_t node, int stage, int at_most, int *count) {
    int64_t claim = world_new_claim(world);
    char texts[5][24];
    snprintf(texts[0], sizeof *texts, "%d", world->stages[stage]);
    snprintf(texts[1], sizeof *texts, "%d", at_most);
    snprintf(texts[2], sizeof *texts, "%" PRId64, claim);
    snprintf(texts[3], sizeof *texts, "%" PRId64, node);
    snprintf(texts[4], sizeof *texts, "%d", stage > 0 ? world->stages[stage - 1] : 0);
    const struct db_result *result =
        world_call(world, world->one, &sql_claim, 7, texts[0], texts[1], texts[2], texts[3], NULL,
                   NULL, stage > 0 ? texts[4] : NULL);
    if (count != NULL) {
        *count = result != NULL ? db_rows(result) : 0;
    }
    return claim;
}

int64_t world_claim_some(struct world *world, struct db_sync *session, int64_t node, int stage,
                         int at_most, bool fair, int *count) {
    int64_t claim = world_new_claim(world);
    char texts[4][24];
    snprintf(texts[0], sizeof *texts, "%d", world->stages[stage]);
    snprintf(texts[1], sizeof *texts, "%d", at_most);
    snprintf(texts[2], sizeof *texts, "%" PRId64, claim);
    snprintf(texts[3], sizeof *texts, "%" PRId64, node);
    const struct db_result *result =
        world_call(world, session, &sql_claim_some, 8, texts[0], texts[1], texts[2], texts[3], NULL,
                   NULL, NULL, fair ? "t" : "f");
    int rows = result != NULL ? db_rows(result) : 0;
    *count = rows == 1 && db_is_null(result, 0, 0) ? -1 : rows;
    return claim;
}

const char *world_claim_input(struct world *world, int stage, int before) {
    char texts[3][24];
    snprintf(texts[0], sizeof *texts, "%d", world->stages[stage]);
    snprintf(texts[1], sizeof *texts, "%" PRId64, world_new_claim(world));
    snprintf(texts[2], sizeof *texts, "%d", before >= 0 ? world->stages[before] : 0);
    const struct db_result *result = world_call(world, world->one, &sql_claim, 7, texts[0], "1",
                                                texts[1], "11", NULL, NULL, before >= 0 ? texts[2] : NULL);
    world_expect(world, result != NULL && db_rows(result) == 1, "stage %d was not claimed", stage);
    return result == NULL || db_rows(result) == 0 || db_is_null(result, 0, 4) ? "" : db_value(result, 0, 4);
}

void world_end_lease(struct world *world, int64_t node) {
    world_sql(world, world->eye,
              "update pgstage.node set lease_until = now() - interval '1 ms' where id = %" PRId64,
              node);
    world_call(world, world->eye, &sql_end_leases, 0);
}

const struct db_result *world_rescue(struct world *world) {
    return world_call(world, world->one, &sql_rescue, 1, "500");
}

const struct db_result *world_release(struct world *world, int64_t node, int64_t known_task,
                                      int64_t known_claim) {
    char texts[3][32];
    snprintf(texts[0], sizeof *texts, "%" PRId64, node);
    snprintf(texts[1], sizeof *texts, known_task != 0 ? "{%" PRId64 "}" : "{}", known_task);
    snprintf(texts[2], sizeof *texts, known_task != 0 ? "{%" PRId64 "}" : "{}", known_claim);
    return world_call(world, world->one, &sql_release_unknown, 3, texts[0], texts[1], texts[2]);
}

struct move_texts {
    char values[19][512];
    struct db_param params[19];
};

static void write_move(const struct world *world, const struct move *move, struct move_texts *out) {
    static const int from_count[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 10};
    int64_t numbers[11] = {move->task,
                           move->claim,
                           move->step,
                           move->count,
                           world->stages[move->first],
                           move->revision != 0 ? move->revision : 1,
                           0,
                           move->attempts,
                           move->crashes,
                           move->rescues,
                           move->delay_ms};
    for (size_t i = 0; i < sizeof from_count / sizeof *from_count; i++) {
        snprintf(out->values[from_count[i]], sizeof *out->values, "{%" PRId64 "}",
                 numbers[from_count[i]]);
    }
    snprintf(out->values[6], sizeof *out->values, "{%s}", move->ending);
    snprintf(out->values[11], sizeof *out->values, "{%s}",
             move->kind != NULL ? move->kind : "NULL");
    snprintf(out->values[12], sizeof *out->values, "{%s}",
             move->reason != NULL ? move->reason : "NULL");
    snprintf(out->values[13], sizeof *out->values, "{NULL}");
    char *lists[] = {out->values[14], out->values[15], out->values[16]};
    size_t used[3] = {0};
    for (int list = 0; list < 3; list++) {
        used[list] = (size_t)snprintf(lists[list], sizeof *out->values, "{");
    }
    for (int k = 0; k < move->count && move->output != NULL; k++) {
        const char *comma = k > 0 ? "," : "";
        used[0] += (size_t)snprintf(lists[0] + used[0], sizeof *out->values - used[0], "%s%" PRId64,
                                    comma, move->task);
        used[1] +=
            (size_t)snprintf(lists[1] + used[1], sizeof *out->values - used[1], "%s%d", comma, k);
        used[2] += (size_t)snprintf(lists[2] + used[2], sizeof *out->values - used[2], "%s\"%s\"",
                                    comma, move->output);
    }
    for (int list = 0; list < 3; list++) {
        snprintf(lists[list] + used[list], sizeof *out->values - used[list], "}");
    }
    int route = move->route == 0              ? 0
                : move->route <= STAGE_COUNT ? world->stages[move->route - 1]
                                             : 999999;
    snprintf(out->values[17], sizeof *out->values, "{%d}", route);
    snprintf(out->values[18], sizeof *out->values, move->has_progress ? "{%" PRId64 "}" : "{}", move->task);
    for (int i = 0; i < 19; i++) {
        out->params[i] = DB_TEXT(out->values[i]);
    }
}

static int stage_of(const struct world *world, int64_t id) {
    for (int i = 0; i < STAGE_COUNT; i++) {
        if (world->stages[i] == id) {
            return i;
        }
    }
    return -1;
}

static struct verdict read_verdict(struct world *world, const struct db_result *result) {
    struct verdict verdict = {.stage = -1};
    if (result == NULL || db_rows(result) != 1) {
        return verdict;
    }
    snprintf(verdict.answer, sizeof verdict.answer, "%s", db_value(result, 0, 2));
    verdict.step = (int)db_int64(result, 0, 3);
    verdict.stage = stage_of(world, db_int64(result, 0, 4));
    snprintf(verdict.status, sizeof verdict.status, "%s", db_value(result, 0, 5));
    return verdict;
}

struct verdict world_complete(struct world *world, struct db_sync *session,
                              const struct move *move) {
    struct move_texts texts;
    write_move(world, move, &texts);
    return read_verdict(world, world_call_with(world, session, &sql_complete, 19, texts.params));
}

struct verdict world_race_complete(struct world *world, const struct move *move,
                                   void (*meanwhile)(struct world *world, void *context),
                                   void *context) {
    struct move_texts texts;
    write_move(world, move, &texts);
    return read_verdict(
        world, world_race_with(world, &sql_complete, meanwhile, context, 19, texts.params));
}

struct row world_row(struct world *world, int64_t task) {
    struct row row = {.stage = -1};
    const struct db_result *r =
        world_sql(world, world->eye,
                  "select status, stage, version, claimed_version, done_version, claim, node, "
                  "step, attempt, crashes, rescues,"
                  " superseded, wish is not null, error_text is not null, "
                  "case when way_version = version then steps else 0 end,"
                  " case when way_version = version and came_to = stage then came_from end"
                  " from pgstage.task where id = %" PRId64,
                  task);
    if (r == NULL || db_rows(r) == 0) {
        return row;
    }
    row = (struct row){.stage = stage_of(world, db_int64(r, 0, 1)),
                       .version = db_int64(r, 0, 2),
                       .claimed_version = db_int64(r, 0, 3),
                       .done_version = db_int64(r, 0, 4),
                       .claim = db_int64(r, 0, 5),
                       .node = db_int64(r, 0, 6),
                       .step = (int)db_int64(r, 0, 7),
                       .attempt = (int)db_int64(r, 0, 8),
                       .crashes = (int)db_int64(r, 0, 9),
                       .rescues = (int)db_int64(r, 0, 10),
                       .superseded = (int)db_int64(r, 0, 11),
                       .has_wish = db_bool(r, 0, 12),
                       .has_error = db_bool(r, 0, 13),
                       .steps = (int)db_int64(r, 0, 14),
                       .came_from = stage_of(world, db_int64(r, 0, 15)),
                       .exists = true};
    snprintf(row.status, sizeof row.status, "%s", db_value(r, 0, 0));
    return row;
}

static bool rest_round(struct world *world) {
    bool worked = false;
    world_sql(world, world->eye,
              "update pgstage.task set due_at = now() - interval '1 ms' where due_at is not null");
    world_call(world, world->eye, &sql_stage_due, 1, "100");
    for (int stage = 0; stage < STAGE_COUNT; stage++) {
        int count = 0;
        int64_t claim = world_claim(world, NODE_LAST, stage, 100, &count);
        for (int i = 0; i < count && world->why[0] == '\0'; i++) {
            int64_t task = world_int(world,
                                     "select id from pgstage.task where claim = %" PRId64
                                     " and status = 'running' limit 1",
                                     claim);
            struct move move = {.task = task,
                                .claim = claim,
                                .count = 1,
                                .first = stage,
                                .ending = "next",
                                .output = "1",
                                .revision = world->revision};
            struct verdict verdict = world_complete(world, world->one, &move);
            world_expect(world, strcmp(verdict.answer, "accepted") == 0, "the rest was %s",
                         verdict.answer);
            worked = true;
        }
    }
    return worked;
}

void world_rest(struct world *world) {
    int rounds = 0;
    while (world->why[0] == '\0' && rest_round(world)) {
        world_expect(world, ++rounds < ROUNDS_MAX, "it never comes to rest");
    }
}
