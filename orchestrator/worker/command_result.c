#include "worker/command_result.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/memory.h"
#include "worker/result_json.h"

#define NO_REGULAR_FILE \
    "the program's result file is no regular file: write the result itself to the path in PGSTAGE_RESULT_FILE"
#define RESULT_FILE_MAX (PGSTAGE_OUTPUT_MAX + PGSTAGE_SQL_MAX + 64 * 1024 * 1024)

/* ---- failures ---- */

/* The call failed as a whole, because of what the program wrote. */
static void __attribute__((format(printf, 2, 3))) breach(struct engine_call *call, const char *format, ...) {
    struct buf text;
    buf_init(&text, 2048);
    va_list args;
    va_start(args, format);
    buf_append_format_list(&text, format, args);
    va_end(args);
    pgstage_fail(call->tasks[0].task, "%s", text.data);
    buf_finish(&text);
    call->tasks[0].outcome = WIRE_CRASH;
    call->tasks[0].kind = "protocol";
    call->failed_whole = true;
}

/* Of sysexits.h those that another try would not change. */
static bool is_permanent(int status) {
    return status == EX_USAGE || status == EX_DATAERR || status == EX_NOINPUT || status == EX_NOPERM ||
           status == EX_CONFIG;
}

static void judge_status(int status, const struct command_output *output, struct engine_call *call) {
    struct engine_task *task = &call->tasks[0];
    struct buf line;
    buf_init(&line, 4096);
    command_output_last_line(output, &line);
    task->outcome = is_permanent(status) ? WIRE_FAIL : WIRE_RETRY;
    call->failed_whole = true;
    if (line.length == 0) {
        pgstage_fail(task->task, "the program exited with status %d", status);
    } else if (status == EX_TEMPFAIL || is_permanent(status)) {
        pgstage_fail(task->task, "%s", line.data); /* it chose what to say */
    } else {
        pgstage_fail(task->task, "the program exited with status %d: %s", status, line.data);
    }
    buf_finish(&line);
}

/* ---- one task ---- */

static void apply_json(const char *text, size_t length, struct engine_call *call) {
    struct engine_task *task = &call->tasks[0];
    struct json_span value;
    size_t fault;
    if (strspn(text, " \t\r\n") == length) {
        return;
    }
    if (!json_text_check(text, length, &value, &fault)) {
        breach(call, "the program's standard output is not JSON: byte %zu of %zu", fault + 1, length);
    } else if (pgstage_set_output(task->task, value.at, value.length) != 0) {
        task->outcome = WIRE_FAIL;
    }
}

static void apply_text(const char *text, size_t length, struct engine_call *call) {
    struct engine_task *task = &call->tasks[0];
    struct buf clean, json;
    buf_init(&clean, 3 * PGSTAGE_OUTPUT_MAX);
    buf_init(&json, PGSTAGE_OUTPUT_MAX + 1);
    const char *at = text, *end = text + length;
    while (at < end) { /* a NUL is dropped: formats that end lines with it are no reason for marks */
        const char *stop = memchr(at, '\0', (size_t)(end - at));
        size_t piece = (size_t)((stop == NULL ? end : stop) - at);
        buf_append(&clean, at, piece);
        at += piece + 1;
    }
    buf_append_string(&json, "{\"text\":");
    json_text_quote(&json, clean.data, clean.length);
    buf_append_char(&json, '}');
    if (json.overflow) {
        pgstage_fail(task->task, "the program's text is, as JSON, larger than the limit of %zu bytes for an output",
                     PGSTAGE_OUTPUT_MAX);
        task->outcome = WIRE_FAIL;
    } else if (pgstage_set_output(task->task, json.data, json.length) != 0) {
        task->outcome = WIRE_FAIL;
    }
    buf_finish(&json);
    buf_finish(&clean);
}

/* ---- a batch: {"results": [{"id": ..., ...}, ...]} ---- */

/* SIZE_MAX: there is no such task. In order of the tasks each is found at once. */
static size_t find_task(const struct engine_call *call, struct json_span id, size_t guess) {
    char digits[24] = "", *end = digits;
    if (json_text_kind(id) == '"' && id.length - 2 < sizeof digits) {
        memcpy(digits, id.at + 1, id.length - 2);
        digits[id.length - 2] = '\0';
    }
    unsigned long long run = strtoull(digits, &end, 10);
    if (end == digits || *end != '\0') {
        return SIZE_MAX;
    }
    for (size_t i = 0; i < call->count; i++) {
        size_t at = (guess + i) % call->count;
        if (call->tasks[at].run->run == run) {
            return at;
        }
    }
    return SIZE_MAX;
}

static bool apply_entry(struct engine_call *call, struct json_span entry, bool *seen, size_t *guess) {
    struct json_want id = {.name = "id"};
    if (json_text_kind(entry) == '{') {
        json_text_members(entry, &id, 1);
    }
    size_t at = find_task(call, id.value, *guess);
    if (at == SIZE_MAX || seen[at]) {
        breach(call, "the program's 'results' has an entry %s",
               at != SIZE_MAX ? "for a task that had one already" : "without the 'id' of a task of this batch");
        return false;
    }
    seen[at] = true;
    *guess = at + 1;
    result_json_apply(entry, &call->tasks[at]);
    return true;
}

static void apply_entries(struct engine_call *call, struct json_span results) {
    bool *seen = mem_alloc(call->count * sizeof *seen), good = true;
    const char *at = NULL;
    size_t guess = 0;
    struct json_span name, entry;
    while (good && json_text_next(results, &at, &name, &entry)) {
        good = apply_entry(call, entry, seen, &guess);
    }
    for (size_t i = 0; good && i < call->count; i++) {
        if (!seen[i]) {
            call->tasks[i].outcome = WIRE_RETRY;
            pgstage_fail(call->tasks[i].task, "the program gave no result for this task of its batch");
        }
    }
    free(seen);
}

static void apply_batch(struct engine_call *call, struct json_span object) {
    struct json_want wants[] = {{.name = "results"}, {.name = "outcome"}};
    json_text_members(object, wants, 2);
    if (json_text_kind(wants[0].value) == '[') {
        apply_entries(call, wants[0].value);
        return;
    }
    result_json_apply(object, &call->tasks[0]);
    call->failed_whole = true;
    if (call->tasks[0].outcome == WIRE_OK) {
        breach(call, "the program's answer to a batch has no list 'results'");
    }
}

/* ---- the whole ---- */

static void apply_object(const struct wire_hello *hello, const char *text, size_t length, const char *what,
                         struct engine_call *call) {
    struct json_span value;
    size_t fault;
    if (!json_text_check(text, length, &value, &fault)) {
        breach(call, "%s is not JSON: byte %zu of %zu", what, fault + 1, length);
    } else if (json_text_kind(value) != '{') {
        breach(call, "%s is no JSON object", what);
    } else if (hello->batch_size > 0) {
        apply_batch(call, value);
    } else {
        result_json_apply(value, &call->tasks[0]);
    }
}

/* How many bytes are in the file; -1: it cannot be read, errno says why. */
static ssize_t read_all(int fd, char *text, size_t size) {
    size_t length = 0;
    ssize_t got = 0;
    while (length < size && ((got = read(fd, text + length, size - length)) > 0 || (got < 0 && errno == EINTR))) {
        length += got > 0 ? (size_t)got : 0;
    }
    text[length] = '\0';
    return got < 0 ? -1 : (ssize_t)length;
}

/* NULL: an empty file, or one that is refused. */
static char *read_open_file(int fd, const struct stat *found, size_t *length, struct engine_call *call) {
    if (!S_ISREG(found->st_mode)) {
        breach(call, NO_REGULAR_FILE);
        return NULL;
    }
    if ((size_t)found->st_size > RESULT_FILE_MAX) {
        breach(call, "the program's result file is larger than the limit of %zu bytes", RESULT_FILE_MAX);
        return NULL;
    }
    char *text = mem_resize(NULL, (size_t)found->st_size + 1, 1);
    ssize_t count = read_all(fd, text, (size_t)found->st_size);
    if (count > 0) {
        *length = (size_t)count;
        return text;
    }
    if (count < 0) {
        breach(call, "the program's result file cannot be read: %s", strerror(errno));
    }
    free(text);
    return NULL;
}

/* NULL: there is none, an empty one, or one that is refused, which `call` then says. What may have been meant as a result
 * is never passed over. */
static char *read_result_file(const char *path, size_t *length, struct engine_call *call) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY), why = errno;
    struct stat found;
    char *text = NULL;
    if (fd < 0 && (why == ENOENT || why == ENOTDIR)) {
        return NULL;
    }
    if (fd >= 0 && fstat(fd, &found) == 0) {
        text = read_open_file(fd, &found, length, call);
    } else if (lstat(path, &found) == 0 && !S_ISREG(found.st_mode)) {
        breach(call, NO_REGULAR_FILE);
    } else {
        breach(call, "the program's result file cannot be read: %s", strerror(why));
    }
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

static void apply_output(const struct wire_hello *hello, const struct command_output *output,
                         struct engine_call *call) {
    if (hello->stdout_form == WIRE_STDOUT_IGNORE) {
        return;
    }
    if (output->length > output->text.length) {
        pgstage_fail(call->tasks[0].task, "the program's standard output has %zu bytes, above the limit of %zu",
                     output->length, COMMAND_OUTPUT_MAX);
        call->tasks[0].outcome = WIRE_FAIL;
        call->failed_whole = true;
    } else if (hello->batch_size > 0) {
        apply_object(hello, output->text.data, output->text.length, "the program's standard output", call);
    } else if (hello->stdout_form == WIRE_STDOUT_TEXT) {
        apply_text(output->text.data, output->text.length, call);
    } else {
        apply_json(output->text.data, output->text.length, call);
    }
}

void command_result_judge(const struct wire_hello *hello, const struct child_end *end,
                          const struct command_output *output, const char *result_file, struct engine_call *call) {
    if (WIFSIGNALED(end->status)) {
        child_judge_signal(end, &call->tasks[0]);
        call->failed_whole = true;
        command_output_pass_on(output);
        return;
    }
    if (WEXITSTATUS(end->status) != 0) {
        judge_status(WEXITSTATUS(end->status), output, call);
        command_output_pass_on(output);
        return;
    }
    size_t length = 0;
    char *text = read_result_file(result_file, &length, call);
    if (text == NULL && !call->failed_whole) {
        apply_output(hello, output, call);
        return;
    }
    command_output_pass_on(output);
    if (text != NULL) {
        apply_object(hello, text, length, "the program's result file", call);
    }
    free(text);
}
