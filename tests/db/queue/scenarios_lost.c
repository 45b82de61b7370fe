/* Scenarios of lost answers: the statement was committed, nobody heard of it, and it is sent again,
 * by another backend. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scenarios.h"

/* Every row of every table, but for the instant of the last write. */
static const char *dump(struct world *world) {
    return world_text(
        world, "select concat_ws(' ',"
               " (select string_agg((to_jsonb(t) - 'updated')::text, ',' order by id) from "
               "pgstage.task t),"
               " (select string_agg(b::text, ',' order by claim) from pgstage.claim_batch b),"
               " (select string_agg((to_jsonb(o) - 'made')::text, ',' order by task, stage, "
               "version) from pgstage.output o),"
               " (select string_agg(f::text, ',' order by id) from pgstage.failure f),"
               " (select string_agg(n::text, ',' order by id) from pgstage.node n),"
               " (select count(*) from pgstage.task_count_delta))");
}

bool endings_sent_again_change_nothing(struct world *world) {
    static const char *const endings[] = {"stay", "next", "ready", "delayed", "failed"};
    for (int i = 0; i < 5; i++) {
        for (int count = 0; count <= 3; count++) {
            char key[16];
            snprintf(key, sizeof key, "%s%d", endings[i], count);
            int64_t task = world_submit(world, key);
            /* Those that were released before stand in front of it. */
            int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 50, NULL);
            bool fails = i >= 3;
            if ((count == 0 && i <= 1) || (count == 3 && i != 1)) {
                continue; /* no such chain: nothing has happened, or the task is over */
            }
            struct move move = {.task = task,
                                .claim = claim,
                                .count = count,
                                .ending = endings[i],
                                .attempts = fails,
                                .kind = fails ? "error" : NULL,
                                .reason = "r",
                                .output = "1",
                                .delay_ms = 1000};
            struct verdict verdict = world_complete(world, world->one, &move);
            EXPECT(world, scenario_is(&verdict, "accepted"), "%s: %s", key, verdict.answer);
            const char *before = dump(world);
            for (int times = 0; times < 2; times++) {
                struct verdict again = world_complete(world, world->two, &move);
                EXPECT(world, scenario_is(&again, i == 0 ? "accepted" : "applied"), "%s again: %s",
                       key, again.answer);
                EXPECT(world, again.step == count && strcmp(again.status, verdict.status) == 0,
                       "%s again: step %d, %s", key, again.step, again.status);
            }
            EXPECT(world, strcmp(before, dump(world)) == 0,
                   "%s changed something when it was sent again", key);
        }
    }
    return world_is_sound(world);
}

/* Not committed at first: somebody else has the task by the time it is sent again. */
bool endings_sent_after_a_rescue_are_refused(struct world *world) {
    static const char *const endings[] = {"stay", "next", "ready", "delayed", "failed"};
    int64_t task = world_submit(world, "k");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_end_lease(world, NODE_ONE);
    world_rescue(world);
    world_claim(world, NODE_TWO, STAGE_A, 1, NULL);
    const char *before = dump(world);
    for (int i = 0; i < 5; i++) {
        struct move move = {.task = task,
                            .claim = claim,
                            .count = i < 2 ? 1 : 0,
                            .ending = endings[i],
                            .output = "1"};
        struct verdict verdict = world_complete(world, world->one, &move);
        EXPECT(world, scenario_is(&verdict, "refused"), "%s: %s", endings[i], verdict.answer);
    }
    EXPECT(world, strcmp(before, dump(world)) == 0, "something changed");
    return world_is_sound(world);
}

static void send_duties(struct world *world, struct db_sync *session, const char *claim) {
    world_call(world, session, &sql_end_nodes, 2, "{11}", "host");
    world_call(world, session, &sql_rescue, 1, "500");
    world_call(world, session, &sql_release_unknown, 3, "12", "{}", "{}");
    world_call(world, session, &sql_stage_due, 1, "100");
    world_call(world, session, &sql_drop_claims, 2, "11", claim);
    world_call(world, session, &sql_drop_empty_claims, 2, "12", "{}");
    world_call(world, session, &sql_submit, 7, "p", "{k1,k9}", "{5,6}", "{2030-01-01,2030-01-01}",
               "{1,NULL}", "{NULL,NULL}", "t");
    world_call(world, session, &sql_node_start, 5, "400", "host", "/l", "1", "1000");
}

bool duties_sent_again_change_nothing(struct world *world) {
    world_submit(world, "k1");
    int64_t claim = world_claim(world, NODE_ONE, STAGE_A, 1, NULL);
    world_submit(world, "k2");
    world_claim(world, NODE_TWO, STAGE_A, 1, NULL);
    world_sql(world, world->eye,
              "select * from pgstage.submit_set('p', '{k3}', '{1}', '{NULL}', '{0}',"
              " array[now() + interval '1 hour'], false)");
    world_sql(world, world->eye,
              "update pgstage.task set due_at = now() - interval '1 s' where key = 'k3'");
    char claims[32];
    snprintf(claims, sizeof claims, "{%" PRId64 "}", claim);
    send_duties(world, world->one, claims);
    EXPECT(world, world_int(world, "select count(*) from pgstage.task where status = 'ready'") == 4,
           "the duties did nothing");
    const char *before = dump(world);
    send_duties(world, world->two, claims);
    EXPECT(world, strcmp(before, dump(world)) == 0, "something changed");
    return world_is_sound(world);
}
