/* abi_handlers.c - registrations as other releases, or no release, would write them. */
#include <pgstage/handler.h>

#define REGISTRATION(TYPE, NAME, ...)                                                              \
    PGSTAGE_API const struct TYPE pgstage_handler_##NAME = {__VA_ARGS__}

static pgstage_result run(pgstage_task *task, void *state) {
    return pgstage_output(task, json_string(state == NULL ? "no state" : "state"));
}

/* Of the same ABI, from a later header that appended fields. */
struct longer_handler {
    struct pgstage_handler known;
    void (*later)(void);
    uint64_t flags;
};

static void later(void) {
}

REGISTRATION(longer_handler, longer, .known.struct_size = sizeof(struct longer_handler),
             .known.abi = 1, .known.run = run, .later = later, .flags = UINT64_MAX);

/* From a header whose struct ended with `run`: what follows in memory is not the registration's. */
struct shorter_handler {
    uint32_t struct_size, abi;
    const char *name;
    pgstage_result (*run)(pgstage_task *task, void *state);
    char foreign[64];
};

REGISTRATION(shorter_handler, shorter, .struct_size = offsetof(struct shorter_handler, foreign),
             .abi = 1, .run = run,
             .foreign = "this is no pointer to an init function, nor to fini");

REGISTRATION(pgstage_handler, newer_abi, .struct_size = sizeof(struct pgstage_handler),
             .abi = PGSTAGE_ABI + 1, .run = run);
REGISTRATION(pgstage_handler, no_run, .struct_size = sizeof(struct pgstage_handler), .abi = 1);
REGISTRATION(pgstage_handler, no_abi, .struct_size = sizeof(struct pgstage_handler), .run = run);
REGISTRATION(pgstage_handler, too_small, .struct_size = 8, .abi = 1, .run = run);
REGISTRATION(pgstage_handler, absurd_size, .struct_size = UINT32_MAX, .abi = 1, .run = run);
