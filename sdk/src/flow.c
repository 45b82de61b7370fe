/* flow.c - where the task goes after this run, as its handler said. */
#include <string.h>

#include "task.h"
#include "text.h"

pgstage_result pgstage_route(pgstage_task *task, const char *stage) {
    task_called(task, __func__);
    size_t length = stage == NULL ? 0 : strnlen(stage, STAGE_NAME_MAX + 1);
    if (length == 0) {
        return task_fail(task, "a route needs the name of a stage");
    }
    if (length > STAGE_NAME_MAX || !text_is_utf8(stage, length)) {
        return task_fail(task, "a route to what cannot be a stage's name: '%.80s'", stage);
    }
    memcpy(task->target, stage, length + 1);
    task->flow = PGSTAGE_HOST_ROUTE;
    return PGSTAGE_OK;
}

pgstage_result pgstage_finish(pgstage_task *task) {
    task_called(task, __func__);
    task->flow = PGSTAGE_HOST_FINISH;
    return PGSTAGE_OK;
}

pgstage_result pgstage_snooze(pgstage_task *task, int64_t ms) {
    task_called(task, __func__);
    if (ms < 0) {
        return task_fail(task, "a snooze of %lld ms", (long long)ms);
    }
    task->delay_ms = ms;
    task->flow = PGSTAGE_HOST_SNOOZE;
    return PGSTAGE_OK;
}

struct pgstage_host_flow pgstage_host_flow(const pgstage_task *task) {
    struct pgstage_host_flow flow = {.kind = task->flow};
    if (task->flow == PGSTAGE_HOST_ROUTE) {
        flow.target = (struct pgstage_host_text){task->target, strlen(task->target)};
    } else if (task->flow == PGSTAGE_HOST_SNOOZE) {
        flow.delay_ms = task->delay_ms;
    }
    return flow;
}
