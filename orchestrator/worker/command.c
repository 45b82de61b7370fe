/* command.c - the engine of `command:`, a program that is started for each task, or each batch.
 *
 * The task is on its standard input, which is a file or memory and never a pipe: nobody has to write while it reads. No
 * shell has a part in it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/find_program.h"
#include "base/memory.h"
#include "base/remove_tree.h"
#include "worker/child.h"
#include "worker/command_arguments.h"
#include "worker/command_environment.h"
#include "worker/command_output.h"
#include "worker/command_result.h"
#include "worker/command_task.h"
#include "worker/engine.h"
#include "worker/lifeline.h"
#include "worker/out_of_memory.h"

static struct {
    const struct wire_hello *hello;
    struct command_arguments arguments;
    char *program, *task_file, *result_file;
} command;

/* ---- start ---- */

static enum status check_stage(const struct wire_hello *hello, struct error *err) {
    if (hello->batch_size > 0 && hello->stdout_form == WIRE_STDOUT_TEXT) {
        return error_set(err, STATUS_INVALID, "'stdout: text' is of one task, but a stage with batch: runs many at once");
    }
    if (hello->work.data == NULL) {
        return error_set(err, STATUS_INVALID, "a command needs a work folder, but the node gave none");
    }
    return STATUS_OK;
}

static enum status start_command(const struct wire_hello *hello, struct error *err) {
    command.hello = hello;
    if (check_stage(hello, err) != STATUS_OK ||
        command_arguments_parse(hello, &command.arguments, err) != STATUS_OK ||
        find_program(command.arguments.program, hello->folder.data, &command.program, err) != STATUS_OK) {
        return err->code;
    }
    child_set_limits(hello);
    command.task_file = mem_format("%s/task.json", hello->work.data);
    command.result_file = mem_format("%s/result.json", hello->work.data);
    return STATUS_OK;
}

/* ---- run ---- */

static void fail(struct engine_call *call, enum wire_outcome outcome, const struct error *err) {
    call->tasks[0].outcome = outcome;
    call->failed_whole = true;
    pgstage_fail(call->tasks[0].task, "%s", err->text);
}

/* What fails here is the task's own fault if it is INVALID or LIMIT, and may be otherwise next time if it is not. */
static enum status start_program(struct engine_call *call, char **arguments, int input, struct command_output *output,
                                 pid_t *pid, bool in_file, struct error *err) {
    char **environment =
        command_environment_make(command.hello, call->tasks[0].run, command.result_file, in_file ? command.task_file : NULL);
    struct child_setup setup = {
        .program = command.program, .arguments = arguments, .environment = environment, .input = input};
    bool keeps = command.hello->stdout_form != WIRE_STDOUT_IGNORE;
    enum status status = command_output_open(output, keeps, &setup, err);
    if (status == STATUS_OK) {
        out_of_memory_watch();
        status = child_start(&setup, pid, err);
    }
    command_output_close_child(output, &setup);
    command_environment_free(environment);
    return status;
}

static enum status run_program(struct engine_call *call, char **arguments, const struct command_task *task,
                               struct error *err) {
    struct command_output output;
    struct child_end end;
    pid_t pid;
    enum status status = start_program(call, arguments, task->fd, &output, &pid, task->in_file, err);
    if (status == STATUS_OK && lifeline_is_terminated()) {
        kill(pid, SIGTERM); /* it came before there was a child to get it, too */
    }
    if (status == STATUS_OK) {
        status = command_output_read(&output, pid, &end, err);
    }
    if (status == STATUS_OK) {
        command_result_judge(command.hello, &end, &output, command.result_file, call);
    }
    command_output_finish(&output);
    unlink(command.result_file);
    return status;
}

static void run_command(struct engine_call *call) {
    struct error err = ERROR_NONE;
    if (remove_any(AT_FDCWD, command.result_file, &err) != STATUS_OK) {
        call->is_over = true; /* what lies there would be taken for this task's: a fresh folder is needed */
        fail(call, WIRE_RETRY, &err);
        return;
    }
    char **arguments = NULL;
    struct command_task task;
    enum status status =
        command_arguments_fill(&command.arguments, call->tasks[0].run, command.task_file, &arguments, &err);
    if (status == STATUS_OK) {
        status = command_task_write(command.hello, call, command.task_file, command.arguments.has_task_file, &task, &err);
    }
    if (status == STATUS_OK) {
        status = run_program(call, arguments, &task, &err);
        close(task.fd);
        if (task.in_file) {
            unlink(command.task_file);
        }
    }
    if (status != STATUS_OK) {
        fail(call, status == STATUS_INVALID || status == STATUS_LIMIT ? WIRE_FAIL : WIRE_RETRY, &err);
    }
    command_arguments_free(arguments);
}

static void stop_command(void) {
    command_arguments_finish(&command.arguments);
    free(command.program);
    free(command.task_file);
    free(command.result_file);
}

const struct engine engine_command = {
    .start = start_command,
    .run = run_command,
    .stop = stop_command,
};
