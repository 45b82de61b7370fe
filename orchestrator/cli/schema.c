/* schema.c - pgstage schema: the JSON Schema of pipeline files, for editors. */
#include "cli/command.h"
#include "cli/output.h"
#include "config/pipeline.h"

static enum exit_status run_schema(const struct args *args) {
    (void)args;
    struct buf out;
    buf_init(&out, (size_t)4 << 20);
    config_print_schema(&out);
    output_put(&out);
    buf_finish(&out);
    return EXIT_OK;
}

const struct command command_schema = {
    .name = "schema",
    .usage = "",
    .summary = "print the JSON Schema of pipeline files",
    .no_database = true,
    .run = run_schema,
};
