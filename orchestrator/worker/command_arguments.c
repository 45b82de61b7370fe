#include "worker/command_arguments.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/find_program.h"
#include "base/memory.h"
#include "base/placeholder.h"
#include "base/require.h"
#include "worker/child.h"
#include "worker/json_text.h"
#include "worker/work.h"

enum { TEXT_MAX_BYTES = 16 * 1024 * 1024 }; /* the kernel takes 128 kB for one argument */

struct piece {
    enum placeholder source;
    char *text; /* LITERAL: itself; else the path, "" for the whole */
};

struct command_argument {
    struct piece *pieces;
    size_t count;
};

/* ---- values ---- */

/* Objects' names may have dots in them, stages' too: the longest one that is there is taken. */
static struct json_span find_path(struct json_span value, const char *path) {
    while (value.at != NULL && path[0] != '\0') {
        char kind = json_text_kind(value);
        size_t length = strlen(path);
        struct json_span found = {0};
        if (kind == '[') {
            char *end;
            unsigned long index = strtoul(path, &end, 10);
            length = (size_t)(end - path);
            const char *at = NULL;
            struct json_span name;
            bool more = length > 0 && path[0] >= '0' && path[0] <= '9';
            for (unsigned long i = 0; more && i <= index; i++) {
                more = json_text_next(value, &at, &name, &found);
            }
            found = more && (*end == '\0' || *end == '.') ? found : (struct json_span){0};
        } else if (kind == '{') {
            while ((found = json_text_member(value, path, length)).at == NULL && length > 0) {
                const char *dot = memrchr(path, '.', length);
                length = dot == NULL ? 0 : (size_t)(dot - path);
            }
        }
        value = found;
        path += length;
        path += *path == '.';
    }
    return value;
}

/* Texts as they are, all else as JSON. False: it has what no argument can hold. */
static bool append_value(struct buf *out, struct json_span value) {
    if (json_text_kind(value) == '"') {
        return json_text_string(value, out);
    }
    buf_append(out, value.at, value.length);
    return memchr(value.at, '\0', value.length) == NULL;
}

static enum status append_json(struct buf *out, const struct piece *piece, struct wire_bytes text, struct error *err) {
    static const char null[] = "null";
    if (text.data == NULL) {
        text = (struct wire_bytes){null, sizeof null - 1};
    }
    struct json_span whole = {0};
    size_t fault;
    const char *name = placeholder_name(piece->source), *dot = piece->text[0] != '\0' ? "." : "";
    if (!json_text_check(text.data, text.length, &whole, &fault)) {
        return error_set(err, STATUS_INVALID, "{%s} is not JSON", name);
    }
    struct json_span value = find_path(whole, piece->text);
    if (value.at == NULL || (piece->text[0] != '\0' && !json_text_is_given(value))) {
        return error_set(err, STATUS_INVALID, "there is no value for {%s%s%s}%s", name, dot, piece->text,
                         value.at == NULL ? "" : ": it is null");
    }
    if (!append_value(out, value)) {
        return error_set(err, STATUS_INVALID,
                         "the value for {%s%s%s} has a NUL character or half a surrogate pair, which no argument can hold",
                         name, dot, piece->text);
    }
    return STATUS_OK;
}

/* The kernel ends arguments at a NUL. */
static enum status append_key(struct buf *out, struct wire_bytes key, struct error *err) {
    if (memchr(key.data, '\0', key.length) != NULL) {
        return error_set(err, STATUS_INVALID, "the key has a NUL character, which no argument can hold");
    }
    buf_append(out, key.data, key.length);
    return STATUS_OK;
}

static enum status append_piece(struct buf *out, const struct piece *piece, const struct wire_run *run,
                                const char *task_file, struct error *err) {
    switch (piece->source) {
    case PLACEHOLDER_KEY:
        return append_key(out, run->key, err);
    case PLACEHOLDER_VERSION:
        buf_append_format(out, "%" PRId64, run->version);
        return STATUS_OK;
    case PLACEHOLDER_ATTEMPT:
        buf_append_format(out, "%d", (int)run->attempt);
        return STATUS_OK;
    case PLACEHOLDER_TASK:
        buf_append_string(out, task_file);
        return STATUS_OK;
    case PLACEHOLDER_PAYLOAD:
        return append_json(out, piece, run->payload, err);
    case PLACEHOLDER_INPUT:
        return append_json(out, piece, run->input, err);
    case PLACEHOLDER_INPUTS:
        return append_json(out, piece, run->inputs, err);
    case PLACEHOLDER_LITERAL:
    case PLACEHOLDER_PIPELINE:
    case PLACEHOLDER_STAGE:
    case PLACEHOLDER_FOLDER:
    case PLACEHOLDER_WORK:
    case PLACEHOLDER_WITH:
        break; /* constants were replaced when they were read */
    }
    buf_append_string(out, piece->text);
    return STATUS_OK;
}

/* ---- reading ---- */

static enum status append_constant(struct buf *out, const struct piece *piece, const struct wire_hello *hello,
                                   struct error *err) {
    if (piece->source == PLACEHOLDER_WITH) {
        return append_json(out, piece, hello->config, err);
    }
    const char *value = piece->source == PLACEHOLDER_PIPELINE ? hello->pipeline.data
                        : piece->source == PLACEHOLDER_STAGE  ? hello->stage.data
                        : piece->source == PLACEHOLDER_FOLDER ? hello->folder.data
                                                  : work_folder();
    if (value == NULL) {
        return error_set(err, STATUS_INVALID, "{%s} has no value here", placeholder_name(piece->source));
    }
    buf_append_string(out, value);
    return STATUS_OK;
}

static enum status parse_argument(const struct wire_hello *hello, struct command_argument *argument, const char *at,
                                  struct error *err) {
    while (*at != '\0') {
        struct placeholder_piece read;
        if (placeholder_next(&at, &read, err) != STATUS_OK) {
            return err->code;
        }
        argument->pieces = mem_resize(argument->pieces, argument->count + 1, sizeof *argument->pieces);
        struct piece *piece = &argument->pieces[argument->count++];
        *piece = (struct piece){read.source, mem_copy_bytes(read.text, read.length)};
        if (read.source != PLACEHOLDER_LITERAL && placeholder_is_constant(read.source)) {
            struct buf value;
            buf_init(&value, TEXT_MAX_BYTES);
            enum status status = append_constant(&value, piece, hello, err);
            free(piece->text);
            *piece = (struct piece){PLACEHOLDER_LITERAL, buf_take(&value)};
            buf_finish(&value);
            if (status != STATUS_OK) {
                return status;
            }
        }
    }
    return STATUS_OK;
}

/* An entry that has braces is none of them. */
static enum status name_file(const struct wire_hello *hello, struct command_argument *argument, const char *text,
                             struct error *err) {
    char *path = NULL;
    if (strpbrk(text, "{}") == NULL && find_file_of(text, hello->folder.data, &path, err) != STATUS_OK) {
        return err->code;
    }
    if (path != NULL) {
        free(argument->pieces[0].text);
        argument->pieces[0].text = path;
    }
    return STATUS_OK;
}

static enum status check(const struct wire_hello *hello, struct error *err) {
    const char **arguments = mem_alloc(hello->argument_count * sizeof *arguments);
    for (size_t i = 0; i < hello->argument_count; i++) {
        arguments[i] = hello->arguments[i].data;
    }
    size_t fault;
    enum status status = placeholders_check(arguments, hello->argument_count, hello->batch_size > 0, &fault, err);
    if (status != STATUS_OK) {
        error_wrap(err, "argument %zu of the command, '%.200s'", fault, arguments[fault]);
    }
    free(arguments);
    return status;
}

void command_arguments_finish(struct command_arguments *parsed) {
    for (size_t i = 0; i < parsed->count; i++) {
        for (size_t p = 0; p < parsed->list[i].count; p++) {
            free(parsed->list[i].pieces[p].text);
        }
        free(parsed->list[i].pieces);
    }
    free(parsed->list);
    free(parsed->program);
    *parsed = (struct command_arguments){0};
}

/* ---- filling ---- */

/* A document's value must not become an option of the program. What the pipeline's author wrote in `with:` may. */
static enum status check_option(const struct command_argument *argument, const char *text, bool after_dashes,
                                struct error *err) {
    if (text[0] != '-' || after_dashes || argument->count == 0 || argument->pieces[0].source == PLACEHOLDER_LITERAL) {
        return STATUS_OK;
    }
    const struct piece *first = &argument->pieces[0];
    return error_set(err, STATUS_INVALID,
                     "the value for {%s%s%s} begins with '-' and would be taken for an option: '%.200s'; give the program "
                     "an argument '--' before it, or write --name={...}",
                     placeholder_name(first->source), first->text[0] != '\0' ? "." : "", first->text, text);
}

static enum status fill_argument(const struct command_argument *argument, const struct wire_run *run,
                                 const char *task_file, char **text, struct error *err) {
    struct buf out;
    buf_init(&out, TEXT_MAX_BYTES);
    enum status status = STATUS_OK;
    for (size_t p = 0; p < argument->count && status == STATUS_OK; p++) {
        status = append_piece(&out, &argument->pieces[p], run, task_file, err);
    }
    if (status == STATUS_OK && out.overflow) {
        status = error_set(err, STATUS_INVALID, "an argument of more than %d bytes: read it from standard input",
                           TEXT_MAX_BYTES);
    }
    *text = buf_take(&out);
    buf_finish(&out);
    return status;
}

enum status command_arguments_fill(const struct command_arguments *parsed, const struct wire_run *run,
                                   const char *task_file, char ***arguments, struct error *err) {
    char **list = mem_alloc((parsed->count + 1) * sizeof *list);
    bool after_dashes = false;
    for (size_t i = 0; i < parsed->count; i++) {
        if (fill_argument(&parsed->list[i], run, task_file, &list[i], err) != STATUS_OK ||
            check_option(&parsed->list[i], list[i], after_dashes, err) != STATUS_OK) {
            command_arguments_free(list);
            *arguments = NULL;
            return err->code;
        }
        after_dashes = after_dashes || strcmp(list[i], "--") == 0;
    }
    *arguments = list;
    return STATUS_OK;
}

void command_arguments_free(char **arguments) {
    for (size_t i = 0; arguments != NULL && arguments[i] != NULL; i++) {
        free(arguments[i]);
    }
    free(arguments);
}

/* ---- the whole ---- */

enum status command_arguments_parse(const struct wire_hello *hello, struct command_arguments *parsed,
                                    struct error *err) {
    *parsed = (struct command_arguments){.list = mem_alloc((hello->argument_count + 1) * sizeof *parsed->list),
                                         .count = hello->argument_count};
    REQUIRE(parsed->count > 0); /* no HELLO is without */
    if (check(hello, err) != STATUS_OK) {
        return err->code;
    }
    for (size_t i = 0; i < parsed->count; i++) {
        const char *text = hello->arguments[i].data;
        struct command_argument *argument = &parsed->list[i];
        if (parse_argument(hello, argument, text, err) != STATUS_OK) {
            return error_wrap(err, "argument %zu of the command, '%.200s'", i, text);
        }
        if (i > 0 && name_file(hello, argument, text, err) != STATUS_OK) {
            return err->code;
        }
        for (size_t p = 0; p < argument->count; p++) {
            parsed->has_task_file = parsed->has_task_file || argument->pieces[p].source == PLACEHOLDER_TASK;
        }
    }
    return fill_argument(&parsed->list[0], NULL, "", &parsed->program, err);
}
