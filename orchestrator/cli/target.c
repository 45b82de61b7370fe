#include "cli/target.h"

#include <string.h>

void target_init(struct target *target, const char *text) {
    const char *slash = strchr(text, '/'); /* no name of a pipeline holds one */
    *target = (struct target){.text = text, .stage = slash == NULL ? NULL : slash + 1};
    buf_init(&target->pipeline, SIZE_MAX);
    buf_append(&target->pipeline, text, slash == NULL ? strlen(text) : (size_t)(slash - text));
}

void target_finish(struct target *target) {
    buf_finish(&target->pipeline);
}
