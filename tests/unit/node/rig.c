#include "rig.h"

#include <string.h>

#include "support/leaks.h"

struct rig rig;

static const int stage_ids[] = {RIG_STAGE};
static struct buf logged;

static void on_line(void *context, enum log_level level, const char *line) {
    (void)context;
    (void)level;
    buf_append_format(&logged, "%s\n", line);
}

int rig_logged(const char *text) {
    int count = 0;
    for (const char *at = logged.data; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

static int64_t now(void *context) {
    (void)context;
    return rig.now_ms;
}

/* ---- pools that are as they are ------------------------------------------------------------------------------------- */

static enum status open_pool(void *context, const struct pool_spec *spec, const struct pool_events *events,
                             struct pool **pool, struct error *err) {
    (void)spec;
    (void)err;
    *pool = context;
    (*pool)->events = *events;
    return STATUS_OK;
}

static enum pool_state state_of(const struct pool *pool, const char **reason) {
    if (reason != NULL) {
        *reason = pool->reason;
    }
    return pool->state;
}

static void close_pool(struct pool *pool) {
    (void)pool; /* rig_end says when it is closed */
}

/* ---- nodes ---------------------------------------------------------------------------------------------------------- */

static void ignore_change(void *context) {
    (void)context;
}

static void on_closed(void *context) {
    (void)context;
}

static void give_scheduler(struct node *node, struct pool *pool) {
    static struct sched_stage stage = {.id = RIG_STAGE, .name = "work", .kind = SCHED_HANDLER, .workers = 1};
    static struct sched_pipeline pipeline = {.id = 1, .name = "p", .stage_count = 1, .stages = &stage};
    static struct workers_ops ops[RIG_NODES];
    struct workers_ops *own = &ops[rig.node_count];
    *own = (struct workers_ops){.open = open_pool, .state = state_of, .close = close_pool, .context = pool};
    struct scheduler_options options = {
        .pipeline_count = 1, .pipelines = &pipeline, .workers = own, .clock = &node->clock, .changed = ignore_change};
    struct error err = ERROR_NONE;
    cr_assert_eq(scheduler_create(&options, &node->scheduler, &err), STATUS_OK);
}

struct node *rig_add_node(int revision, enum pool_state state) {
    struct node *node = &rig.nodes[rig.node_count];
    struct node_pipeline *pipeline = &rig.pipelines[rig.node_count];
    struct pool *pool = &rig.pools[rig.node_count];
    *pipeline = (struct node_pipeline){.def = rig.def, .id = 1, .revision = revision, .stage_ids = stage_ids};
    *pool = (struct pool){.state = state, .reason = state == POOL_PARKED ? "no such symbol" : NULL};
    *node = (struct node){
        .process = &rig.process,
        .options = {.pipeline_count = 1, .pipelines = pipeline},
        .clock = {now, NULL},
        .loop = &rig.process.loop,
        .handles_closing = true, /* it has none */
        .state = NODE_UP,
        .lease = {.state = LEASE_HELD, .node = 100 + rig.node_count},
        .stage_count = 1,
    };
    list_append(&rig.process.nodes, &node->link);
    give_scheduler(node, pool);
    rig.node_count++;
    return node;
}

void rig_begin(void) {
    static const char text[] = "pipeline: p\nstages:\n  - {name: work, sql: select 1}\n";
    struct config_report report = {0};
    struct error err = ERROR_NONE;
    leaks_fail_tests();
    memset(&rig, 0, sizeof rig);
    rig.now_ms = 1000 * 1000;
    buf_init(&logged, SIZE_MAX);
    log_set_sink(on_line, NULL);
    cr_assert_eq(pipeline_parse("/nowhere/p.yaml", text, sizeof text - 1, &rig.def, &report, &err), STATUS_OK, "%s", err.text);
    config_report_finish(&report);
    struct process *process = &rig.process;
    process->clock = (struct clock_ops){now, NULL};
    process->random = random_system;
    process->result = &rig.result;
    list_init(&process->nodes);
    cr_assert_eq(uv_loop_init(&process->loop), 0);
    process->front = rig_add_node(1, POOL_UP);
    process->options.pipeline_count = 1;
    process->options.pipelines = rig.pipelines;
    reload_create(process);
}

void rig_end(void) {
    for (int i = 0; i < rig.node_count; i++) {
        struct scheduler *scheduler = rig.nodes[i].scheduler;
        scheduler_close(scheduler, on_closed, NULL);
        rig.pools[i].events.closed(rig.pools[i].events.context, &rig.pools[i]);
        scheduler_turn(scheduler);
    }
    cr_expect_eq(uv_loop_close(&rig.process.loop), 0);
    reload_finish(&rig.process);
    pipeline_free(rig.def);
    buf_finish(&logged);
}

void rig_settle(void) {
    uv_run(&rig.process.loop, UV_RUN_DEFAULT);
}
