/* When definitions are read again, what becomes of what was found, and when a successor takes over. */
#include <string.h>

#include "rig.h"

static struct reading {
    enum status status;
    bool is_new, files;
    char *rejected[1];
    int reads, releases;
} reading;

static enum status read_definitions(void *context, const struct node_pipeline *now, bool files, struct node_reload *found,
                                    struct error *err) {
    (void)context;
    reading.reads++;
    reading.files = files;
    if (reading.status != STATUS_OK) {
        return error_set(err, reading.status, "the database is away");
    }
    *found = (struct node_reload){.pipeline_count = 1,
                                  .pipelines = now,
                                  .rejected = reading.rejected,
                                  .changes = "p: nothing",
                                  .is_new = reading.is_new,
                                  .owner = &reading};
    return STATUS_OK;
}

static void release(struct node_reload *found) {
    reading.releases += found->owner == &reading;
    *found = (struct node_reload){0};
}

static void begin(void) {
    rig_begin();
    reading = (struct reading){.status = STATUS_OK};
    rig.process.options.reload = read_definitions;
    rig.process.options.release = release;
}

TestSuite(reload, .init = begin, .fini = rig_end, .timeout = 30);

/* Returns when it wants the next turn. */
static int64_t turn(void) {
    int64_t next_ms = INT64_MAX;
    reload_turn(&rig.process, rig.now_ms, &next_ms);
    return next_ms;
}

static void read_once(bool files) {
    int before = reading.reads;
    reload_ask(&rig.process, files);
    turn();
    rig_settle();
    cr_assert_eq(reading.reads, before + 1);
}

static void see(int stage, int revision) {
    struct store_stage_state state = {.stage = stage, .revision = revision};
    reload_see_revisions(rig.process.front, 1, &state);
}

static bool is_asked(void) {
    bool asked = rig.process.reload.revision_asked;
    rig.process.reload.revision_asked = false;
    return asked;
}

/* ---- when they are read --------------------------------------------------------------------------------------------- */

Test(reload, another_revision_is_looked_at) {
    see(RIG_STAGE, 1);
    cr_expect(!is_asked(), "it is this one");
    see(RIG_STAGE + 1, 2);
    cr_expect(!is_asked(), "of another pipeline");
    see(RIG_STAGE, 2);
    cr_expect(is_asked());
}

/* One that was of no use is tried again now and then: what it lacked may be there by now. */
Test(reload, one_that_was_tried_is_tried_again_much_later) {
    see(RIG_STAGE, 2);
    cr_expect(is_asked());
    rig.now_ms += 9999;
    see(RIG_STAGE, 2);
    cr_expect(!is_asked());
    see(RIG_STAGE, 3);
    cr_expect(is_asked(), "another one is not made to wait");
    rig.now_ms += 10000;
    see(RIG_STAGE, 3);
    cr_expect(is_asked());
}

Test(reload, only_the_node_in_front_looks_and_not_during_a_reload) {
    struct store_stage_state state = {.stage = RIG_STAGE, .revision = 2};
    reload_see_revisions(rig_add_node(1, POOL_UP), 1, &state);
    cr_expect(!is_asked());
    for (enum reload_state busy = RELOAD_READING; busy <= RELOAD_DRAINING; busy++) {
        rig.process.reload.state = busy;
        see(RIG_STAGE, 2);
        cr_expect(!is_asked(), "in state %d", (int)busy);
    }
    rig.process.reload.state = RELOAD_IDLE;
    see(RIG_STAGE, 2);
    cr_expect(is_asked());
}

Test(reload, nothing_is_read_during_a_stop_or_where_nothing_reads) {
    rig.process.stopping = true;
    reload_ask(&rig.process, true);
    cr_expect(!rig.process.reload.files_asked);
    rig.process.reload.files_asked = true; /* it was asked just before the stop */
    turn();
    rig_settle();
    cr_expect_eq(reading.reads, 0);
    rig.process.reload.files_asked = rig.process.stopping = false;
    rig.process.options.reload = NULL;
    reload_ask(&rig.process, true);
    cr_expect(!rig.process.reload.files_asked);
}

Test(reload, what_is_asked_for_meanwhile_leads_to_one_more) {
    reload_ask(&rig.process, false);
    turn();
    for (int i = 0; i < 3; i++) {
        reload_ask(&rig.process, true);
        turn();
    }
    rig_settle();
    cr_expect_eq(reading.reads, 1);
    cr_expect(!reading.files);
    turn();
    rig_settle();
    cr_expect_eq(reading.reads, 2);
    cr_expect(reading.files);
    cr_expect_eq(turn(), INT64_MAX);
    rig_settle();
    cr_expect_eq(reading.reads, 2);
}

/* The database is away: the same is read again, less and less often, and that is said once. */
Test(reload, what_cannot_be_read_now_is_read_later) {
    static const int64_t delays[] = {500, 1000, 2000, 4000, 8000, 10000, 10000};
    reading.status = STATUS_UNAVAILABLE;
    read_once(true);
    for (size_t i = 0; i < sizeof delays / sizeof delays[0]; i++) {
        cr_assert_eq(turn(), rig.now_ms + delays[i], "after %zu", i + 1);
        rig.now_ms += delays[i] - 1;
        turn();
        rig_settle();
        cr_assert_eq(reading.reads, (int)i + 1, "too early");
        rig.now_ms++;
        turn();
        rig_settle();
        cr_assert_eq(reading.reads, (int)i + 2);
        cr_assert(reading.files, "the files are forgotten");
    }
    cr_expect_eq(rig_logged("reload.waits"), 1);
    reading.status = STATUS_OK;
    rig.now_ms += 10000;
    turn();
    rig_settle();
    reading.status = STATUS_UNAVAILABLE;
    read_once(false);
    cr_expect_eq(turn(), rig.now_ms + 500, "it begins anew");
    cr_expect_eq(rig_logged("reload.waits"), 2);
}

/* ---- what was found ------------------------------------------------------------------------------------------------- */

Test(reload, a_rejection_is_told_once_and_kept_while_it_holds) {
    static char first[] = "workrs", second[] = "stags";
    reading.rejected[0] = first;
    read_once(true);
    read_once(false);
    cr_expect_eq(rig_logged("reload.rejected pipeline=p reason=\"workrs\""), 1);
    cr_expect_str_eq(rig.process.reload.rejected[0], first);
    reading.rejected[0] = second;
    read_once(true);
    cr_expect_eq(rig_logged("reload.rejected pipeline=p reason=\"stags\""), 1);
    reading.rejected[0] = NULL;
    read_once(true);
    cr_expect_null(rig.process.reload.rejected[0]);
    reading.rejected[0] = second;
    read_once(true);
    cr_expect_eq(rig_logged("reload.rejected"), 3);
    cr_expect_eq(reading.releases, 5);
}

Test(reload, what_is_found_during_a_stop_is_let_go) {
    reading.is_new = true;
    reload_ask(&rig.process, true);
    turn();
    rig.process.stopping = true;
    rig_settle();
    cr_expect_eq(reading.reads, 1);
    cr_expect_eq(reading.releases, 1);
    cr_expect_eq(rig_logged("reload.begun"), 0);
    cr_expect_eq(rig.process.reload.state, RELOAD_IDLE);
}

Test(reload, a_successor_that_cannot_be_opened_leaves_the_node_in_front) {
    rig.process.options.lock_folder = "/proc/no/folder";
    reading.is_new = true;
    read_once(true);
    cr_expect_eq(rig_logged("reload.failed"), 1);
    cr_expect_eq(reading.releases, 1);
    turn();
    cr_expect_eq(rig.process.reload.state, RELOAD_IDLE);
    cr_expect_eq(rig.process.front, &rig.nodes[0]);
    cr_expect_null(rig.process.next);
    cr_expect_eq(rig.nodes[0].state, NODE_UP);
}

/* ---- taking over ---------------------------------------------------------------------------------------------------- */

/* A successor of revision 2. */
static struct node *start_successor(enum pool_state state) {
    struct reload *reload = &rig.process.reload;
    rig.process.next = rig_add_node(2, state);
    reload->state = RELOAD_STARTING;
    reload->deadline_ms = rig.now_ms + 30000;
    return rig.process.next;
}

static void expect_taken(struct node *successor) {
    cr_expect_eq(rig.process.front, successor);
    cr_expect_null(rig.process.next);
    cr_expect_eq(rig.nodes[0].state, NODE_DRAINING);
    cr_expect_eq(rig.process.reload.state, RELOAD_DRAINING);
    cr_expect_eq(rig_logged("reload.done"), 1);
}

static void expect_waiting(void) {
    cr_expect_eq(rig.process.front, &rig.nodes[0]);
    cr_expect_eq(rig.process.reload.state, RELOAD_STARTING);
    cr_expect_eq(rig.nodes[0].state, NODE_UP);
}

Test(reload, a_successor_takes_over_when_its_lease_is_held) {
    struct node *successor = start_successor(POOL_UP);
    successor->lease.state = LEASE_STARTING;
    turn();
    expect_waiting();
    rig.now_ms += 60000;
    turn();
    expect_waiting();
    successor->lease.state = LEASE_HELD;
    turn();
    expect_taken(successor);
}

Test(reload, its_workers_are_waited_for_but_not_for_ever) {
    struct node *successor = start_successor(POOL_STARTING);
    cr_expect_eq(turn(), rig.now_ms + 30000);
    expect_waiting();
    rig.now_ms += 29999;
    turn();
    expect_waiting();
    rig.now_ms++;
    turn();
    expect_taken(successor);
}

Test(reload, the_next_reload_begins_when_the_old_node_is_gone) {
    start_successor(POOL_UP);
    turn();
    reload_ask(&rig.process, true);
    turn();
    rig_settle();
    cr_expect_eq(reading.reads, 0);
    list_remove(&rig.nodes[0].link);
    turn();
    rig_settle();
    cr_expect_eq(reading.reads, 1);
}

/* Workers that refuse a definition are tried once: it is not read again before a person asks, or makes another one. */
Test(reload, a_successor_whose_workers_refuse_is_let_go) {
    struct node *successor = start_successor(POOL_PARKED);
    turn();
    cr_expect_eq(rig.process.front, &rig.nodes[0]);
    cr_expect_eq(rig.nodes[0].state, NODE_UP);
    cr_expect_null(rig.process.next);
    cr_expect_eq(successor->state, NODE_DRAINING);
    cr_expect_eq(rig_logged("reload.rejected pipeline=p stage=work reason=\"no such symbol\""), 1);
    cr_assert_not_null(rig.process.reload.rejected[0]);
    cr_expect_str_eq(rig.process.reload.rejected[0], "the new definition is rejected: stage 'work': no such symbol");
    list_remove(&successor->link);
    turn();
    cr_expect_eq(rig.process.reload.state, RELOAD_IDLE);
    rig.now_ms += 3600 * 1000;
    see(RIG_STAGE, 2);
    cr_expect(!is_asked());
    see(RIG_STAGE, 3);
    cr_expect(is_asked());
}

/* The new definition is no worse there than the old one. */
Test(reload, workers_that_the_old_node_cannot_have_either_keep_nobody) {
    rig.pools[0].state = POOL_PARKED;
    rig.pools[0].reason = "no such symbol";
    struct node *successor = start_successor(POOL_PARKED);
    turn();
    expect_taken(successor);
    cr_expect_eq(rig_logged("reload.rejected"), 0);
}

Test(reload, a_stop_that_comes_between_ends_it) {
    start_successor(POOL_UP)->state = NODE_DRAINING;
    turn();
    cr_expect_eq(rig.process.reload.state, RELOAD_DRAINING);
    cr_expect_eq(rig.process.front, &rig.nodes[0]);
    rig.process.next->state = NODE_UP;
    rig.nodes[0].state = NODE_DRAINING;
    rig.process.reload.state = RELOAD_STARTING;
    turn();
    cr_expect_eq(rig.process.front, &rig.nodes[0]);
    rig.process.next = NULL;
    rig.process.reload.state = RELOAD_STARTING;
    turn();
    cr_expect_eq(rig.process.reload.state, RELOAD_DRAINING);
    cr_expect_eq(rig_logged("reload.done"), 0);
}

/* ---- until idle ----------------------------------------------------------------------------------------------------- */

Test(reload, a_node_is_not_idle_while_another_definition_is_on_its_way) {
    for (enum reload_state busy = RELOAD_READING; busy <= RELOAD_DRAINING; busy++) {
        rig.process.reload.state = busy;
        process_idle(&rig.nodes[0]);
        cr_expect(!rig.process.stopping, "in state %d", (int)busy);
    }
    rig.process.reload.state = RELOAD_IDLE;
    reload_ask(&rig.process, false);
    process_idle(&rig.nodes[0]);
    cr_expect(!rig.process.stopping, "a revision was seen");
    rig.process.reload.revision_asked = false;
    reload_ask(&rig.process, true);
    process_idle(&rig.nodes[0]);
    cr_expect(!rig.process.stopping, "files are to be read");
    rig.process.reload.files_asked = false;
    process_idle(rig_add_node(1, POOL_UP));
    cr_expect(!rig.process.stopping, "it is not in front");
    process_idle(&rig.nodes[0]);
    cr_expect(rig.process.stopping);
}
