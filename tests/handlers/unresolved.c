#include <pgstage/handler.h>

int defined_nowhere(void);

static pgstage_result run(pgstage_task *task, void *state) {
    (void)state;
    return pgstage_fail(task, "%d", defined_nowhere());
}
PGSTAGE_HANDLER(unresolved, .run = run);
