/* definition_files.c - the shared objects and programs that a pipeline file names: in its folder unless it says otherwise, and
 * nobody else may be able to change them. What a program's name finds in PATH is the system's business. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/trusted_file.h"
#include "cli/definitions.h"

static char *path_of(const struct pipeline_def *def, const char *file) {
    return file[0] == '/' ? mem_copy_string(file) : mem_format("%s/%s", def->folder, file);
}

static bool is_refused(const struct pipeline_def *def, const struct stage_def *stage, const char *file, struct buf *said) {
    struct error err = ERROR_NONE;
    char *path = path_of(def, file);
    enum status status = trusted_file_check(path, file[0] == '/' ? NULL : def->folder, &err);
    free(path);
    if (status != STATUS_OK) {
        buf_append_format(said, "pgstage: stage '%s': %s\n", stage->name, err.text);
    }
    return status != STATUS_OK;
}

/* A path that climbs out of the folder is refused though there is nothing yet to be loaded. */
static bool climbs_out(const char *file) {
    int depth = 0;
    for (const char *part = file; depth >= 0 && *part != '\0';) {
        size_t length = strcspn(part, "/");
        bool up = length == 2 && strncmp(part, "..", 2) == 0;
        bool stays = length == 0 || (length == 1 && part[0] == '.');
        depth += up ? -1 : stays ? 0 : 1;
        part += length + (part[length] == '/');
    }
    return file[0] != '/' && depth < 0;
}

static bool is_readable(const struct pipeline_def *def, const char *file) {
    char *path = path_of(def, file);
    bool readable = access(path, R_OK) == 0;
    free(path);
    return readable;
}

static bool check_handler(const struct pipeline_def *def, const struct stage_def *stage, bool needed, struct buf *said) {
    const char *file = stage->handler_file;
    if (is_readable(def, file)) {
        return !is_refused(def, stage, file, said);
    }
    if (climbs_out(file)) {
        buf_append_format(said,
                          "pgstage: stage '%s': %s lies outside of the pipeline's folder: give its absolute path if that is "
                          "meant\n",
                          stage->name, file);
        return false;
    }
    if (needed) {
        char *path = path_of(def, file);
        buf_append_format(said, "pgstage: the handler of stage '%s' cannot be read: %s\n", stage->name, path);
        free(path);
    }
    return !needed;
}

static bool is_file(const struct pipeline_def *def, const char *argument) {
    char *path = path_of(def, argument);
    struct stat found;
    bool is = stat(path, &found) == 0 && S_ISREG(found.st_mode);
    free(path);
    return is;
}

/* The program, and scripts among its arguments. Other files with an absolute path may be anything: data, a device. */
static bool check_program(const struct pipeline_def *def, const struct stage_def *stage, struct buf *said) {
    bool good = true;
    for (int i = 0; stage->arguments != NULL && stage->arguments[i] != NULL; i++) {
        const char *argument = stage->arguments[i];
        if ((i == 0 || argument[0] != '/') && is_file(def, argument)) {
            good = !is_refused(def, stage, argument, said) && good;
        }
    }
    return good;
}

static enum exit_status check_all(const struct definition *definition, bool needed, struct buf *said) {
    enum exit_status status = EXIT_OK;
    const struct pipeline_def *def = definition->def;
    for (int i = 0; i < def->stage_count; i++) {
        const struct stage_def *stage = &def->stages[i];
        if (stage->kind == STAGE_SQL || (definition->elsewhere != NULL && definition->elsewhere[i])) {
            continue;
        }
        bool good = stage->kind == STAGE_HANDLER ? check_handler(def, stage, needed, said) : check_program(def, stage, said);
        status = good ? status : EXIT_WRONG;
    }
    return status;
}

enum exit_status definition_check_handlers(const struct definition *definition, struct buf *said) {
    return check_all(definition, true, said);
}

enum exit_status definition_check_files(const struct definition *definition, struct buf *said) {
    return check_all(definition, false, said);
}
