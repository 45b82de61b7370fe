/* submit_lines.c - pgstage submit --from: JSON lines, checked one by one and submitted in chunks.
 *
 * A chunk is one transaction. At the first line that is wrong the command ends: the chunk in hand is dropped, earlier ones
 * stay.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "cli/catalog.h"
#include "cli/instant.h"
#include "cli/json_read.h"
#include "cli/line_reader.h"
#include "cli/nearest.h"
#include "cli/output.h"
#include "cli/submit.h"
#include "cli/submit_chunk.h"

enum { KEY_MAX = 1024 };

struct import {
    struct line_reader reader;
    struct db_sync *db;
    struct chunk chunk;
    struct chunk_outcome outcome;
    int64_t last_sent; /* line of the last document that was submitted */
    struct submit_rights rights;
    bool shows_progress, asked_rights;
};

/* ---- progress, on a terminal --------------------------------------------------------------------------------------- */

static int64_t submitted(const struct import *import) {
    return import->outcome.fresh + import->outcome.updated + import->outcome.unchanged;
}

static void show_progress(const struct import *import) {
    if (import->shows_progress) {
        fprintf(stderr, "\r%" PRId64 " submitted", submitted(import));
    }
}

static void end_progress(const struct import *import) {
    if (import->shows_progress && submitted(import) > 0) {
        fputs("\r\033[K", stderr);
    }
}

/* ---- a line ------------------------------------------------------------------------------------------------------- */

static __attribute__((format(printf, 3, 4))) bool wrong(const struct import *import, int column, const char *format,
                                                        ...) {
    va_list args;
    end_progress(import);
    fprintf(stderr, "%s:%" PRId64 ":", text_shown(import->reader.name), import->reader.number);
    if (column > 0) {
        fprintf(stderr, "%d:", column);
    }
    fputc(' ', stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return false;
}

/* Strings are owned here until the document is in its chunk. */
struct fields {
    char *key, *updated_at, *run_at;
    struct json_member members[6];
};

enum field { FIELD_KEY, FIELD_PAYLOAD, FIELD_UPDATED_AT, FIELD_PRIORITY, FIELD_RUN_AT, FIELD_EVERY, FIELD_COUNT };

static const char *const field_names[FIELD_COUNT] = {
    [FIELD_KEY] = "key",           [FIELD_PAYLOAD] = "payload", [FIELD_UPDATED_AT] = "updated_at",
    [FIELD_PRIORITY] = "priority", [FIELD_RUN_AT] = "run_at",  [FIELD_EVERY] = "every",
};

static bool unknown_field(const struct import *import, const struct json_member *member) {
    char *name = mem_copy_bytes(member->name, member->name_length);
    struct nearest nearest;
    nearest_init(&nearest, name);
    for (int i = 0; i < FIELD_COUNT; i++) {
        nearest_offer(&nearest, field_names[i]);
    }
    if (nearest.best != NULL) {
        wrong(import, 0, "unknown field '%s'; did you mean '%s'?", text_shown(name), nearest.best);
    } else {
        wrong(import, 0, "unknown field '%s'; a line has key, payload, updated_at, priority, run_at and every",
              text_shown(name));
    }
    nearest_finish(&nearest);
    free(name);
    return false;
}

static bool find_fields(const struct import *import, const char *line, struct fields *fields) {
    struct json_member member;
    while (json_next_member(&line, &member)) {
        int field = 0;
        while (field < FIELD_COUNT && (strlen(field_names[field]) != member.name_length ||
                                       memcmp(field_names[field], member.name, member.name_length) != 0)) {
            field++;
        }
        if (field == FIELD_COUNT) {
            return unknown_field(import, &member);
        }
        if (fields->members[field].name != NULL) {
            return wrong(import, 0, "the field '%s' is there twice", field_names[field]);
        }
        fields->members[field] = member;
    }
    return true;
}

/* A field that is absent or null is not given. */
static bool is_given(const struct fields *fields, enum field field) {
    const struct json_member *member = &fields->members[field];
    return member->name != NULL && !json_means_nothing(member->value, member->value_length);
}

static char *string_of(const struct fields *fields, enum field field) {
    return json_string_copy(fields->members[field].value, fields->members[field].value_length);
}

static bool read_key(const struct import *import, struct fields *fields) {
    if (!is_given(fields, FIELD_KEY)) {
        return wrong(import, 0, "there is no key");
    }
    fields->key = string_of(fields, FIELD_KEY);
    if (fields->key == NULL) {
        return wrong(import, 0, "the key is not a string");
    }
    size_t length = strlen(fields->key);
    if (length == 0) {
        return wrong(import, 0, "the key is empty");
    }
    return length <= KEY_MAX || wrong(import, 0, "the key has %zu bytes; a key has at most %d", length, KEY_MAX);
}

static bool read_time(const struct import *import, struct fields *fields, enum field field, char **text) {
    if (!is_given(fields, field)) {
        return true;
    }
    *text = string_of(fields, field);
    if (*text == NULL || !instant_is_valid(*text)) {
        return wrong(import, 0, "%s wants " INSTANT_FORM, field_names[field]);
    }
    return true;
}

static bool read_priority(const struct import *import, struct fields *fields, struct submit_document *document) {
    if (!is_given(fields, FIELD_PRIORITY)) {
        return true;
    }
    const struct json_member *member = &fields->members[FIELD_PRIORITY];
    char *end = NULL;
    errno = 0;
    long long value = strtoll(member->value, &end, 10);
    if (errno != 0 || end != member->value + member->value_length || value < INT32_MIN || value > INT32_MAX) {
        return wrong(import, 0, "the priority is not a whole number of 32 bits");
    }
    document->has_priority = true;
    document->priority = (int32_t)value;
    return true;
}

static bool read_period(const struct import *import, struct fields *fields, struct submit_document *document) {
    if (!is_given(fields, FIELD_EVERY)) {
        return true;
    }
    char *text = string_of(fields, FIELD_EVERY);
    document->has_period = true;
    document->is_bare = !import->chunk.if_changed;
    for (int i = FIELD_PAYLOAD; i < FIELD_EVERY; i++) {
        document->is_bare = document->is_bare && !is_given(fields, (enum field)i);
    }
    bool good = text != NULL && submit_read_period(text, &document->period_ms);
    free(text);
    return good || wrong(import, 0, "every wants " PERIOD_FORM);
}

static bool read_fields(const struct import *import, const char *line, struct fields *fields,
                        struct submit_document *document) {
    if (!find_fields(import, line, fields) || !read_key(import, fields) ||
        !read_time(import, fields, FIELD_UPDATED_AT, &fields->updated_at) ||
        !read_time(import, fields, FIELD_RUN_AT, &fields->run_at) || !read_priority(import, fields, document) ||
        !read_period(import, fields, document)) {
        return false;
    }
    document->line = import->reader.number;
    document->key = fields->key;
    document->updated_at = fields->updated_at;
    document->run_at = fields->run_at;
    if (is_given(fields, FIELD_PAYLOAD)) {
        document->payload = fields->members[FIELD_PAYLOAD].value;
        document->payload_length = fields->members[FIELD_PAYLOAD].value_length;
    }
    return document->payload_length <= PAYLOAD_MAX ||
           wrong(import, 0, "the payload is longer than %d MB", PAYLOAD_MAX >> 20);
}

static bool read_line(const struct import *import, const char *line, size_t length, struct fields *fields,
                      struct submit_document *document) {
    struct json_mistake mistake;
    if (!json_check(line, length, &mistake)) {
        return wrong(import, mistake.column, "%s", text_shown(mistake.why));
    }
    if (line[strspn(line, " \t\r\n")] != '{') {
        return wrong(import, 0, "a line is an object: {\"key\": \"...\", \"payload\": ...}");
    }
    return read_fields(import, line, fields, document);
}

/* ---- chunks ------------------------------------------------------------------------------------------------------- */

/* What stands after a mistake. Nothing was changed, or some was. */
static enum exit_status say_what_stays(const struct import *import) {
    if (import->last_sent == 0) {
        fprintf(stderr, "nothing was submitted\n");
        return EXIT_WRONG;
    }
    fprintf(stderr, "%" PRId64 " submitted: the lines up to %" PRId64 "; nothing of those after it\n", submitted(import),
            import->last_sent);
    return EXIT_SOME_FAILED;
}

static enum exit_status send_failed(struct import *import, const struct error *err) {
    struct error why = ERROR_NONE;
    end_progress(import);
    int64_t line = err->code == STATUS_INVALID ? chunk_find_refused(&import->chunk, import->db, &why) : 0;
    if (line > 0) {
        fprintf(stderr, "%s:%" PRId64 ": %s\n", text_shown(import->reader.name), line, text_shown(why.text));
        return say_what_stays(import);
    }
    enum exit_status status = report_store_error(import->db, import->chunk.pipeline, err);
    if (err->code == STATUS_UNCERTAIN) {
        fprintf(stderr,
                "it is not known whether the lines %" PRId64 " to %" PRId64
                " were submitted; submitting lines with updated_at again does no harm\n",
                import->last_sent + 1, import->reader.number);
    }
    if (import->last_sent == 0) {
        return status;
    }
    enum exit_status said = say_what_stays(import);
    return status == EXIT_WRONG ? said : status;
}

static enum exit_status send_chunk(struct import *import) {
    struct error err = ERROR_NONE;
    int64_t last = import->chunk.count > 0 ? import->chunk.entries[import->chunk.count - 1].line : import->last_sent;
    if (chunk_send(&import->chunk, import->db, &import->outcome, &err) != STATUS_OK) {
        return send_failed(import, &err);
    }
    import->last_sent = last;
    show_progress(import);
    return EXIT_OK;
}

/* Asked once, at the first line that has a period. */
static enum exit_status check_rights(struct import *import) {
    struct error err = ERROR_NONE;
    if (!import->asked_rights && submit_find_rights(import->db, &import->rights, &err) != STATUS_OK) {
        return send_failed(import, &err);
    }
    import->asked_rights = true;
    if (!import->rights.periods) {
        wrong(import, 0, "every: " PERIOD_WANTS);
        return say_what_stays(import);
    }
    return EXIT_OK;
}

static enum exit_status take_line(struct import *import, const char *line, size_t length) {
    struct fields fields = {0};
    struct submit_document document = {0};
    enum exit_status status = EXIT_OK;
    if (!read_line(import, line, length, &fields, &document)) {
        status = say_what_stays(import);
    }
    if (status == EXIT_OK && document.has_period) {
        status = check_rights(import);
    }
    if (status == EXIT_OK && chunk_is_due(&import->chunk, &document)) {
        status = send_chunk(import);
    }
    if (status == EXIT_OK) {
        chunk_add(&import->chunk, &document);
    }
    free(fields.key);
    free(fields.updated_at);
    free(fields.run_at);
    return status;
}

static enum exit_status take_lines(struct import *import) {
    for (;;) {
        char *line = NULL;
        size_t length = 0;
        struct error err = ERROR_NONE;
        if (line_reader_next(&import->reader, &line, &length, &err) != STATUS_OK) {
            end_progress(import);
            fprintf(stderr, "%s\n", err.text);
            return say_what_stays(import);
        }
        if (line == NULL) {
            return send_chunk(import);
        }
        if (import->reader.number == 1 && length >= 3 && memcmp(line, "\xEF\xBB\xBF", 3) == 0) {
            line += 3;
            length -= 3;
        }
        if (line[strspn(line, " \t\r")] == '\0' && strlen(line) == length) {
            continue;
        }
        enum exit_status status = take_line(import, line, length);
        if (status != EXIT_OK) {
            return status;
        }
    }
}

enum exit_status submit_lines(const struct args *args, struct db_sync *db) {
    struct import *import = mem_alloc(sizeof *import);
    struct error err = ERROR_NONE;
    import->db = db;
    import->shows_progress = isatty(STDERR_FILENO) == 1;
    chunk_init(&import->chunk, args->positional[0], args_has(args, "if-changed"));
    enum exit_status status = EXIT_WRONG;
    if (line_reader_open(args_get(args, "from"), &import->reader, &err) != STATUS_OK) {
        report_error(&err);
    } else {
        status = catalog_check(db, args->positional[0], NULL, false);
    }
    if (status == EXIT_OK) {
        status = take_lines(import);
    }
    if (status == EXIT_OK) {
        end_progress(import);
        printf("%" PRId64 " submitted: %" PRId64 " new, %" PRId64 " updated, %" PRId64 " unchanged", submitted(import),
               import->outcome.fresh, import->outcome.updated, import->outcome.unchanged);
        if (import->outcome.periods > 0) {
            printf("; periods set without a submit: %" PRId64, import->outcome.periods);
        }
        putchar('\n');
        status = output_finish(status);
    }
    line_reader_close(&import->reader);
    chunk_finish(&import->chunk);
    free(import);
    return status;
}
