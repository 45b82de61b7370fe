/* log_test.c - C82 (e): whatever a document brings along, it adds no line of its own to the log, nor to what a command
 * prints.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rig.h"
#include "support/pg.h"

static struct rig rig;

static void init(void) {
    rig_init(&rig);
}

static void finish(void) {
    rig_finish(&rig);
}

TestSuite(log, .init = init, .fini = finish, .timeout = 120);

/* A line of the log as ours are, behind every kind of line end there is, and a colour. */
#define RECORD "2001-01-01T00:00:00.000Z info node.up forged=1"
#define FORGED "x\\n" RECORD "\\r" RECORD "\\r\\n" RECORD "\\u001b[31m\\u0085" RECORD "\\u2028" RECORD

static void expect_no_record(const char *text, const char *where) {
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        cr_expect_neq(strncmp(line, "2001-", 5), 0, "%s has a line of its own: %s", where, line);
    }
    cr_expect_null(strchr(text, '\r'), "%s: %s", where, text);
    cr_expect_null(strchr(text, '\x1b'), "%s: %s", where, text);
    cr_expect_null(strstr(text, "\xc2\x85"), "%s: %s", where, text);
}

static const char *next_line(const char *line) {
    line = strchr(line, '\n');
    return line == NULL || line[1] == '\0' ? NULL : line + 1;
}

/* As a key, a payload, what a handler says by each of its ways, a reason for a failure, and an error of the user's SQL. */
Test(log, c82_a_document_forges_no_line) {
    rig_write(&rig, "p.yaml",
              "pipeline: p\ndefaults: {retry: {attempts: 1}}\nstages:\n  - {name: a, handler: '%L:by_payload'}\n"
              "  - {name: b, sql: \"select (:payload->>'number')::int\"}\n");
    char *output = NULL;
    cr_assert_eq(rig_run(&rig, &output, "apply p.yaml"), 0, "%s", output);
    free(output);
    pg_exec(rig.url, "select pgstage.submit('p', E'" FORGED "', '{\"do\": \"say\", \"text\": \"" FORGED "\"}')");
    pg_exec(rig.url, "select pgstage.submit('p', E'kind" FORGED "', '{\"do\": \"" FORGED "\"}')");
    pg_exec(rig.url, "select pgstage.submit('p', E'sql" FORGED "', '{\"do\": \"echo\", \"number\": \"" FORGED "\"}')");
    rig_start(&rig, 0, "");
    rig_await(&rig, "select count(*) from pgstage.task where status = 'failed'", 3);
    kill(rig.nodes[0], SIGTERM);
    cr_expect_eq(rig_wait(&rig, 0), 0);
    char *log = rig_log(&rig, 0);
    expect_no_record(log, "the log");
    int said = 0;
    for (const char *line = log; line != NULL; line = next_line(line)) {
        const char *end = strchr(line, '\n'), *found = strstr(line, "forged=1");
        said += found != NULL && (end == NULL || found < end);
    }
    cr_expect_geq(said, 4, "the log says less than it was told, so nothing is shown: %s", log);
    free(log);
    static const char *const commands[] = {"errors p", "tasks p", "tasks p --json", "status", "errors p --json"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        cr_expect_leq(rig_run(&rig, &output, "%s", commands[i]), 1);
        expect_no_record(output, commands[i]);
        free(output);
    }
}
