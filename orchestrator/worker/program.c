/* program.c - the engine of `worker:`, a program that stays and speaks JSON lines (docs/worker-protocol.md).
 *
 * One thing at a time: the program starts, waits for a task, or has one or a batch in hand. Its end is the end of this
 * process: the node makes a fresh one, with its brakes.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/find_program.h"
#include "base/memory.h"
#include "worker/inbox.h"
#include "worker/lifeline.h"
#include "worker/limits.h"
#include "worker/memory_use.h"
#include "worker/out_of_memory.h"
#include "worker/program_answers.h"
#include "worker/program_lines.h"
#include "worker/program_pipes.h"
#include "worker/runner.h"

enum { STOP_PATIENCE_MS = 8000, REFUSED_PATIENCE_MS = 1000, CLOSED_PATIENCE_MS = 1000 };

static struct {
    const struct wire_hello *hello;
    struct program program;
    pgstage_task *nobody; /* whose log lines are the worker's own */
    uint64_t last_id;
    bool has_cpu_limit;
} engine;

/* ---- what the program says ---- */

/* What comes behind the last answer is no matter of the tasks that it ended. */
static bool wants_lines(const struct answers *answers) {
    return answers->call == NULL || answers->left > 0;
}

/* Handles each line that is there. PROTOCOL: a breach. */
static enum status take_lines(struct answers *answers, enum answers_said *said, struct error *err) {
    const char *line;
    size_t length;
    *said = ANSWERS_GO_ON;
    while (*said == ANSWERS_GO_ON && wants_lines(answers) && program_take_line(&engine.program, &line, &length)) {
        if (length > PROGRAM_LINE_MAX) {
            return error_set(err, STATUS_PROTOCOL, "the program wrote a line of more than 256 MB");
        }
        if (answers_take(answers, engine.nobody, line, length, said, err) != STATUS_OK) {
            return err->code;
        }
    }
    if (program_unfinished(&engine.program) > PROGRAM_LINE_MAX) {
        return error_set(err, STATUS_PROTOCOL, "the program wrote a line of more than 256 MB");
    }
    return STATUS_OK;
}

/* "Ready" and "refused" mean nothing any more. */
static enum status hear(struct answers *answers, struct error *err) {
    enum answers_said said;
    do {
        if (take_lines(answers, &said, err) != STATUS_OK) {
            return err->code;
        }
    } while (said != ANSWERS_GO_ON);
    return STATUS_OK;
}

/* ---- the end of it ---- */

/* "exited with status 3", "was killed by signal 9 (SIGKILL)". */
static void describe(const struct child_end *end, char *text, size_t size) {
    if (WIFSIGNALED(end->status)) {
        const char *name = sigabbrev_np(WTERMSIG(end->status));
        snprintf(text, size, "was killed by signal %d (%s%s)", WTERMSIG(end->status), name != NULL ? "SIG" : "unnamed",
                 name != NULL ? name : "");
    } else {
        snprintf(text, size, "exited with status %d", WEXITSTATUS(end->status));
    }
}

/* A program without its standard output can say nothing any more: it is ended, if it does not end itself. */
static bool is_over(const struct program *program) {
    return program->has_ended || program->out < 0;
}

/* Ends a program that is over. */
static struct child_end bury(void) {
    return program_end(&engine.program, engine.program.has_ended ? 0 : CLOSED_PATIENCE_MS);
}

/* ---- start ---- */

static pgstage_task *make_nobody(void) {
    static const struct pgstage_host_run run = {.pipeline = "", .stage = "", .key = ""};
    static const struct pgstage_host_ops ops = {.log = runner_log_of_nobody};
    return pgstage_host_task_create(&run, &ops); /* it is asked for nothing but log lines */
}

static enum status start_process(const struct wire_hello *hello, struct error *err) {
    char *path;
    if (hello->argument_count == 0) {
        return error_set(err, STATUS_INVALID, "the stage names no program");
    }
    if (find_program(hello->arguments[0].data, hello->folder.data, &path, err) != STATUS_OK) {
        return err->code;
    }
    char **arguments = mem_alloc((hello->argument_count + 1) * sizeof *arguments);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < hello->argument_count; i++) {
        char *file = NULL;
        if (i > 0 && status == STATUS_OK) {
            status = find_file_of(hello->arguments[i].data, hello->folder.data, &file, err);
        }
        arguments[i] = file != NULL ? file : mem_copy_string(hello->arguments[i].data);
    }
    setenv("PGSTAGE_PIPELINE", hello->pipeline.data, 1);
    setenv("PGSTAGE_STAGE", hello->stage.data, 1);
    child_set_limits(hello);
    out_of_memory_watch();
    struct child_setup setup = {.program = path, .arguments = arguments, .environment = environ};
    if (status == STATUS_OK) {
        status = program_start(&engine.program, &setup, err);
    }
    for (uint32_t i = 0; i < hello->argument_count; i++) {
        free(arguments[i]);
    }
    free(arguments);
    free(path);
    return status;
}

static enum status ended_at_start(struct error *err) {
    char text[64];
    struct child_end end = bury();
    describe(&end, text, sizeof text);
    return error_set(err, STATUS_INVALID, "the program %s " WIRE_ENDED_EARLY, text);
}

/* The node watches how long this takes. */
static enum status wait_ready(struct error *err) {
    struct answers none = {0};
    enum answers_said said = ANSWERS_GO_ON;
    while (said == ANSWERS_GO_ON) {
        program_step(&engine.program, -1);
        inbox_take_notice();
        if (take_lines(&none, &said, err) != STATUS_OK) {
            program_end(&engine.program, 0);
            return err->code;
        }
        if (said == ANSWERS_GO_ON && is_over(&engine.program)) {
            return ended_at_start(err);
        }
    }
    if (said == ANSWERS_REFUSED) {
        program_end(&engine.program, REFUSED_PATIENCE_MS);
        return err->code;
    }
    return STATUS_OK;
}

static void say(void (*put)(struct buf *out, const struct wire_hello *hello)) {
    struct buf line;
    buf_init(&line, SIZE_MAX);
    put(&line, engine.hello);
    program_say(&engine.program, &line);
    buf_finish(&line);
}

static enum status start_engine(const struct wire_hello *hello, struct error *err) {
    engine.hello = hello;
    engine.nobody = make_nobody();
    if (engine.nobody == NULL) {
        return error_set(err, STATUS_INTERNAL, "the worker is out of memory");
    }
    if (start_process(hello, err) != STATUS_OK) {
        return err->code;
    }
    say(program_put_hello);
    return wait_ready(err);
}

/* ---- between two tasks ---- */

/* No task is there whose failure could tell it: the log does. */
static bool wait_engine(void) {
    struct answers none = {0};
    struct error err = ERROR_NONE;
    for (;;) {
        if (hear(&none, &err) != STATUS_OK) {
            fprintf(stderr, "pgstage-worker: while it had no task, %s\n", err.text);
            program_end(&engine.program, 0);
            return false;
        }
        if (is_over(&engine.program)) {
            char text[64];
            struct child_end end = bury();
            describe(&end, text, sizeof text);
            fprintf(stderr, "pgstage-worker: the program %s while it had no task\n", text);
            return false;
        }
        inbox_take_notice();
        if (!inbox_is_empty()) {
            return true;
        }
        program_step(&engine.program, -1);
    }
}

/* ---- a task, or a batch ---- */

/* The limit of the whole process, moved by what it has used: so it is one of this task. */
static void limit_cpu(void) {
    struct rlimit limit;
    int64_t seconds = engine.hello->cpu_seconds;
    rlim_t wanted = seconds > 0 ? limits_cpu_for_task(engine.program.pid, seconds) : 0;
    if (wanted == 0 || prlimit(engine.program.pid, RLIMIT_CPU, NULL, &limit) != 0) {
        return;
    }
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    prlimit(engine.program.pid, RLIMIT_CPU, &limit, NULL);
    engine.has_cpu_limit = true;
}

static void lift_cpu_limit(void) {
    struct rlimit limit;
    if (engine.has_cpu_limit && engine.program.pid > 0 && prlimit(engine.program.pid, RLIMIT_CPU, NULL, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        prlimit(engine.program.pid, RLIMIT_CPU, &limit, NULL);
        engine.has_cpu_limit = false;
    }
}

struct told {
    bool cancelled, superseded;
};

static void tell_changes(const struct answers *answers, struct told *told) {
    for (size_t i = 0; i < answers->call->count; i++) {
        const pgstage_task *task = answers->call->tasks[i].task;
        struct told now = {pgstage_cancelled(task), pgstage_superseded(task)};
        if (answers->answered[i] || (now.cancelled == told[i].cancelled && now.superseded == told[i].superseded)) {
            continue;
        }
        struct buf line;
        buf_init(&line, SIZE_MAX);
        program_put_tell(&line, answers->first_id + i + (answers->is_batch ? 1 : 0), now.cancelled, now.superseded);
        program_say(&engine.program, &line);
        buf_finish(&line);
        told[i] = now;
    }
}

static void fail_call(struct engine_call *call) {
    call->failed_whole = true;
    call->is_over = true;
}

static void judge_breach(struct engine_call *call, const struct error *err) {
    program_end(&engine.program, 0);
    call->tasks[0].outcome = WIRE_CRASH;
    call->tasks[0].kind = "protocol";
    pgstage_fail(call->tasks[0].task, "%s", err->text);
    fail_call(call);
}

static void judge_end(struct engine_call *call) {
    bool half_a_line = program_unfinished(&engine.program) > 0;
    struct child_end end = bury();
    struct engine_task *task = &call->tasks[0];
    task->outcome = WIRE_CRASH;
    task->kind = "no_answer";
    if (engine.program.was_killed) {
        pgstage_fail(task->task, "the program closed its standard output before it answered, and lived on");
    } else if (WIFSIGNALED(end.status)) {
        child_judge_signal(&end, task);
    } else {
        pgstage_fail(task->task, "the program exited with status %d %s", WEXITSTATUS(end.status),
                     half_a_line ? "in the middle of a line" : "before it answered");
    }
    fail_call(call);
}

/* Until all is answered, or nothing more will be. */
static void converse(struct answers *answers, struct told *told) {
    struct error err = ERROR_NONE;
    while (answers->left > 0) {
        tell_changes(answers, told);
        program_step(&engine.program, -1);
        inbox_take_notice();
        if (hear(answers, &err) != STATUS_OK) {
            judge_breach(answers->call, &err);
            return;
        }
        if (answers->left > 0 && is_over(&engine.program)) {
            judge_end(answers->call);
            return;
        }
    }
}

static void run_engine(struct engine_call *call) {
    bool is_batch = engine.hello->batch_size > 0;
    struct answers answers = {
        .call = call, .is_batch = is_batch, .first_id = engine.last_id + 1, .left = call->count};
    engine.last_id += call->count + (is_batch ? 1 : 0);
    answers.answered = mem_alloc(call->count * sizeof *answers.answered);
    struct told *told = mem_alloc(call->count * sizeof *told);
    struct buf line;
    buf_init(&line, SIZE_MAX);
    program_put_call(&line, engine.hello, call, answers.first_id);
    program_say(&engine.program, &line);
    buf_finish(&line);
    limit_cpu();
    converse(&answers, told);
    if (!call->is_over && !runner_has_more()) {
        lift_cpu_limit();
    }
    free(told);
    free(answers.answered);
}

/* ---- stop ---- */

static void stop_engine(void) {
    if (engine.program.pid > 0) {
        struct buf line;
        buf_init(&line, SIZE_MAX);
        program_put_stop(&line);
        program_say(&engine.program, &line);
        buf_finish(&line);
        program_end(&engine.program, STOP_PATIENCE_MS);
    }
    pgstage_host_task_destroy(engine.nobody);
}

static int64_t resident_bytes(void) {
    return engine.program.pid > 0 ? memory_use_resident_bytes(engine.program.pid) : 0;
}

const struct engine engine_program = {
    .start = start_engine,
    .wait = wait_engine,
    .run = run_engine,
    .stop = stop_engine,
    .resident_bytes = resident_bytes,
};
