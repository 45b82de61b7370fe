/* conform.c - pgstage conform -- PROGRAM: checks a worker against docs/worker-protocol.md. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "cli/conform_checks.h"
#include "cli/json_write.h"
#include "cli/output.h"

enum { BATCH_MAX = 10000, ANSWER_MS = 20000 };

static void print(struct buf *line) {
    buf_append_char(line, '\n');
    output_put(line);
    fflush(stdout); /* what the program writes to standard error stands where it belongs */
    buf_finish(line);
}

static void put_words(struct buf *line, const char *text) {
    text_show(line, text, 0);
}

static void report(const struct check *check, const struct talk *talk, bool good, bool json) {
    struct buf line;
    buf_init(&line, SIZE_MAX);
    if (json) {
        json_begin(&line, NULL, '{');
        json_add_text(&line, "check", check->name);
        json_add_bool(&line, "ok", good);
        if (!good) {
            json_add_text(&line, "expected", talk->expected);
            json_add_text(&line, "came", talk->came);
            json_add_text(&line, "where", check->where);
        }
        json_end(&line, '}');
    } else if (good) {
        buf_append_format(&line, "ok %s", check->name);
    } else {
        buf_append_format(&line, "not ok %s: expected ", check->name);
        put_words(&line, talk->expected);
        buf_append_string(&line, "; came ");
        put_words(&line, talk->came);
        buf_append_format(&line, "; see \"%s\" in docs/worker-protocol.md", check->where);
    }
    print(&line);
}

static void report_end(int passed, int failed, bool json) {
    struct buf line;
    buf_init(&line, SIZE_MAX);
    buf_append_format(&line, json ? "{\"passed\":%d,\"failed\":%d}" : "%d passed, %d failed", passed, failed);
    print(&line);
}

/* A check that failed may have left anything: the next one gets a fresh program. */
static bool run_check(const struct check *check, struct talk *talk, bool *has_program) {
    bool good = *has_program || talk_start(talk, "{}", "");
    *has_program = good;
    if (good) {
        good = check->run(talk);
        *has_program = good && !check->ends_program;
    }
    return good;
}

static enum exit_status run_checks(struct talk *talk, bool json) {
    int passed = 0, failed = 0;
    bool has_program = false;
    for (size_t i = 0; i < conform_check_count && !output_is_broken(); i++) {
        const struct check *check = &conform_checks[i];
        if (check->only_batch && talk->batch == 0) {
            continue;
        }
        bool good = run_check(check, talk, &has_program);
        report(check, talk, good, json);
        passed += good ? 1 : 0;
        failed += good ? 0 : 1;
        if (i == 0 && !good) {
            break; /* the others would say the same, each after half a minute */
        }
    }
    report_end(passed, failed, json);
    return failed == 0 ? EXIT_OK : EXIT_SOME_FAILED;
}

static enum exit_status run_conform(const struct args *args) {
    int64_t batch = 0, timeout_ms = ANSWER_MS;
    if (!args_int(args, "batch", 1, BATCH_MAX, &batch) || !args_duration(args, "timeout", &timeout_ms)) {
        return EXIT_WRONG;
    }
    output_open();
    signal(SIGPIPE, SIG_IGN); /* a program that ends while it is written to is a finding */
    program_take_over();
    struct talk talk;
    args->positional[args->count] = NULL; /* there is room: argv ends with one */
    talk_init(&talk, args->positional, (int)batch, timeout_ms);
    enum exit_status status = run_checks(&talk, args_has(args, "json"));
    talk_finish(&talk);
    return status;
}

static const struct option_spec options[] = {
    {"batch", "N", "send all work as batches of up to N tasks, as for a stage with `batch:`"},
    {"timeout", "DURATION", "what each answer may take (20s)"},
    {"json", NULL, "one JSON object a check, and one at the end"},
    {0},
};

const struct command command_conform = {
    .name = "conform",
    .usage = "[--batch N] [--timeout DURATION] [--json] -- PROGRAM [ARGUMENT...]",
    .summary = "check a worker program against the worker protocol",
    .options = options,
    .min_positional = 1,
    .max_positional = -1,
    .no_database = true,
    .run = run_conform,
};
