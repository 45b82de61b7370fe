/* drain.c - pgstage drain: no more goes in at the front, and the command ends when nothing is left behind it.
 *
 * A drain of a pipeline pauses its first stage, one of a stage those before it. Both leave the pauses for `resume` to end.
 * A claim that was under way when the pause was committed is waited for, so that nothing can appear after "drained". What
 * stands at a stage behind that somebody else has paused is not waited for once nothing else is left.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/catalog.h"
#include "cli/json_write.h"
#include "cli/output.h"
#include "cli/stop_signal.h"
#include "cli/target.h"
#include "sql/statements.h"

enum { POLL_FIRST_MS = 20, POLL_MAX_MS = 500, SAY_EVERY_MS = 1000 };
enum { BEGIN_POSITION, BEGIN_PIPELINE_PAUSED, BEGIN_TICKS };
enum { LEFT_STAGE, LEFT_PAUSED, LEFT_READY, LEFT_RUNNING, LEFT_DELAYED, LEFT_WAITING, LEFT_TICKS };

struct drain {
    const struct args *args;
    struct target target;
    struct db_sync *db;
    struct buf position, ticks, said;
    struct db_result *fronts; /* the stages that were paused for it, and stay so */
    struct db_result *left;   /* the last look */
    bool stuck;               /* all that it found stands at paused stages */
};

static enum status run_begin(struct drain *drain, struct db_result **result, struct error *err) {
    struct db_param params[] = {DB_TEXT(drain->target.pipeline.data), {.data = drain->target.stage}};
    return sync_run(drain->db, NULL, sql_drain_begin.text, 2, params, result, err);
}

/* The stages before it are paused, and `ticks` names the transactions that may not have seen that. */
static enum status pause_front(struct drain *drain, struct error *err) {
    struct db_param params[] = {DB_TEXT(drain->target.pipeline.data), DB_TEXT(drain->position.data)};
    struct db_result *result = NULL;
    enum status status = sync_run(drain->db, NULL, sql_drain_pause.text, 2, params, &drain->fronts, err);
    if (status != STATUS_OK) {
        return status;
    }
    status = run_begin(drain, &result, err);
    if (status == STATUS_OK) {
        buf_append_string(&drain->ticks, db_value(result, 0, BEGIN_TICKS));
        sync_result_free(result);
    }
    return status;
}

static enum exit_status begin(struct drain *drain, struct error *err) {
    struct db_result *result = NULL;
    if (run_begin(drain, &result, err) != STATUS_OK) {
        return report_error(err);
    }
    bool known = db_rows(result) > 0 && !db_is_null(result, 0, BEGIN_POSITION);
    bool paused = known && db_bool(result, 0, BEGIN_PIPELINE_PAUSED);
    buf_append_string(&drain->position, known ? db_value(result, 0, BEGIN_POSITION) : "");
    sync_result_free(result);
    if (!known) {
        fprintf(stderr, "pgstage: the current definition of '%s' has no stage '%s'\n", drain->target.pipeline.data,
                drain->target.stage);
        return EXIT_WRONG;
    }
    if (paused) {
        fprintf(stderr, "pgstage: pipeline '%s' is paused as a whole, so that nothing in it moves; pgstage resume %s first\n",
                drain->target.pipeline.data, drain->target.pipeline.data);
        return EXIT_REFUSED;
    }
    return pause_front(drain, err) == STATUS_OK ? EXIT_OK : report_error(err);
}

/* ---- what is left ------------------------------------------------------------------------------------------------- */

static int64_t standing(const struct db_result *left, int row) {
    return db_int64(left, row, LEFT_READY) + db_int64(left, row, LEFT_DELAYED) + db_int64(left, row, LEFT_WAITING);
}

/* Nothing moves any more, and what stands will not until a person acts. */
static bool is_stuck(const struct db_result *left) {
    for (int row = 0; row < db_rows(left); row++) {
        bool moves = db_int64(left, row, LEFT_RUNNING) > 0 || db_int64(left, row, LEFT_TICKS) > 0;
        if (moves || (standing(left, row) > 0 && !db_bool(left, row, LEFT_PAUSED))) {
            return false;
        }
    }
    return true;
}

static enum status look(struct drain *drain, bool *over, struct error *err) {
    struct db_param params[] = {DB_TEXT(drain->target.pipeline.data), DB_TEXT(drain->position.data),
                                DB_TEXT(drain->ticks.data)};
    struct db_result *left = NULL;
    enum status status = sync_run(drain->db, NULL, sql_drain_left.text, 3, params, &left, err);
    if (status != STATUS_OK) {
        return status;
    }
    sync_result_free(drain->left);
    drain->left = left;
    *over = true;
    for (int row = 0; row < db_rows(left); row++) {
        for (int column = LEFT_READY; column <= LEFT_TICKS; column++) {
            *over = *over && db_int64(left, row, column) == 0;
        }
    }
    drain->stuck = !*over && is_stuck(left);
    return STATUS_OK;
}

static void describe_stage(const struct drain *drain, int row, struct buf *out) {
    const char *stage = db_value(drain->left, row, LEFT_STAGE);
    buf_append_format(out, "%s%s", out->length > 0 ? "; " : "", stage);
    if (db_bool(drain->left, row, LEFT_PAUSED) && standing(drain->left, row) > 0) {
        buf_append_format(out, " (paused; pgstage resume %s/%s)", drain->target.pipeline.data, stage);
    } else if (db_bool(drain->left, row, LEFT_PAUSED)) {
        buf_append_string(out, " (paused)");
    }
    buf_append_string(out, ": ");
}

/* "second: 3 ready, 1 running; third (paused; pgstage resume lib/third): 2 ready" */
static void describe(const struct drain *drain, struct buf *out) {
    for (int row = 0; row < db_rows(drain->left); row++) {
        bool any = false;
        for (int column = LEFT_READY; column <= LEFT_WAITING; column++) {
            int64_t count = db_int64(drain->left, row, column);
            if (count == 0) {
                continue;
            }
            if (!any) {
                describe_stage(drain, row, out);
            }
            buf_append_format(out, "%s%" PRId64 " %s", any ? ", " : "", count, db_column_name(drain->left, column));
            any = true;
        }
    }
    buf_append_string(out, out->length == 0 ? "claims that are under way" : "");
}

static void say_what_is_left(struct drain *drain) {
    struct buf now;
    buf_init(&now, SIZE_MAX);
    describe(drain, &now);
    if (strcmp(now.data, drain->said.data) != 0) {
        fprintf(stderr, "left: %s\n", now.data);
        buf_clear(&drain->said);
        buf_append_string(&drain->said, now.data);
    }
    buf_finish(&now);
}

/* Until nothing is left, or nothing that moves, the time is over, or somebody asks for a stop. */
static enum status wait_for_end(struct drain *drain, int64_t timeout_ms, bool *over, struct error *err) {
    int64_t begun = clock_now_ms(&clock_boottime), said = begun, delay = POLL_FIRST_MS;
    for (;;) {
        enum status status = look(drain, over, err);
        int64_t now = clock_now_ms(&clock_boottime);
        bool late = timeout_ms >= 0 && now - begun >= timeout_ms;
        if (status != STATUS_OK || *over || drain->stuck || stop_was_asked() || late) {
            return status;
        }
        if (now - said >= SAY_EVERY_MS) {
            say_what_is_left(drain);
            said = now;
        }
        int64_t left = timeout_ms >= 0 ? timeout_ms - (now - begun) : delay;
        stop_wait_ms(left < delay ? left : delay);
        delay = delay * 2 < POLL_MAX_MS ? delay * 2 : POLL_MAX_MS;
    }
}

/* ---- the answer --------------------------------------------------------------------------------------------------- */

static void print_json(const struct drain *drain, bool over) {
    struct buf out;
    buf_init(&out, SIZE_MAX);
    json_begin(&out, NULL, '{');
    json_add_bool(&out, "drained", over);
    json_begin(&out, "paused", '[');
    for (int row = 0; row < db_rows(drain->fronts); row++) {
        json_add_text(&out, NULL, db_value(drain->fronts, row, 0));
    }
    json_end(&out, ']');
    json_begin(&out, "left", '[');
    for (int row = 0; row < db_rows(drain->left); row++) {
        json_begin(&out, NULL, '{');
        json_add_text(&out, "stage", db_value(drain->left, row, LEFT_STAGE));
        json_add_bool(&out, "paused", db_bool(drain->left, row, LEFT_PAUSED));
        for (int column = LEFT_READY; column <= LEFT_WAITING; column++) {
            json_add_int(&out, db_column_name(drain->left, column), db_int64(drain->left, row, column));
        }
        json_end(&out, '}');
    }
    json_end(&out, ']');
    json_end(&out, '}');
    printf("%s\n", out.data);
    buf_finish(&out);
}

static void print(const struct drain *drain, bool over) {
    const char *pipeline = drain->target.pipeline.data;
    if (!over) {
        struct buf left;
        buf_init(&left, SIZE_MAX);
        describe(drain, &left);
        const char *why = drain->stuck       ? ": all that is left stands at paused stages"
                          : stop_was_asked() ? " yet"
                                             : " in time";
        fprintf(stderr, "pgstage: not drained%s; left: %s\n", why, left.data);
        buf_finish(&left);
    }
    if (args_has(drain->args, "json")) {
        print_json(drain, over);
    } else if (over) {
        printf("%s is drained\n", drain->target.text);
    }
    if (db_rows(drain->fronts) > 0 && !args_has(drain->args, "json")) {
        for (int row = 0; row < db_rows(drain->fronts); row++) {
            fprintf(stderr, "%s%s", row == 0 ? "paused: " : ", ", db_value(drain->fronts, row, 0));
        }
        fprintf(stderr, "; pgstage resume %s lets it go on\n", pipeline);
    }
}

static enum exit_status drain_target(struct drain *drain, int64_t timeout_ms) {
    struct error err = ERROR_NONE;
    enum exit_status status = catalog_check(drain->db, drain->target.pipeline.data, drain->target.stage, true);
    if (status == EXIT_OK) {
        status = begin(drain, &err);
    }
    if (status != EXIT_OK) {
        return status;
    }
    bool over = false;
    if (wait_for_end(drain, timeout_ms, &over, &err) != STATUS_OK) {
        return report_error(&err);
    }
    print(drain, over);
    return output_finish(over ? EXIT_OK : EXIT_SOME_FAILED);
}

static enum exit_status run_drain(const struct args *args) {
    struct drain drain = {.args = args};
    struct session session;
    int64_t timeout_ms = -1;
    if (!args_duration(args, "timeout", &timeout_ms)) {
        return EXIT_WRONG;
    }
    struct buf *const texts[] = {&drain.position, &drain.ticks, &drain.said};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        buf_init(texts[i], SIZE_MAX);
    }
    target_init(&drain.target, args->positional[0]);
    enum exit_status status = session_open(args, &session);
    if (status == EXIT_OK) {
        stop_listen();
        drain.db = session.db;
        status = drain_target(&drain, timeout_ms);
        sync_result_free(drain.fronts);
        sync_result_free(drain.left);
        session_close(&session);
    }
    target_finish(&drain.target);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        buf_finish(texts[i]);
    }
    return status;
}

static const struct option_spec options[] = {
    {"timeout", "DURATION", "give up after that long (exit status 1); the pauses stay"},
    {"json", NULL, "print {\"drained\", \"paused\": [STAGE, ...], \"left\": [{\"stage\", \"ready\", ...}]}"},
    {0},
};

const struct command command_drain = {
    .name = "drain",
    .usage = "PIPELINE[/STAGE] [--timeout D] [--json]",
    .summary = "pause the first stage, or those before STAGE, and wait until nothing is left behind",
    .options = options,
    .min_positional = 1,
    .max_positional = 1,
    .run = run_drain,
};
