#include "base/find_program.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/trusted_file.h"

static bool is_file(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

static bool is_program(const char *path) {
    return is_file(path) && access(path, X_OK) == 0;
}

enum status find_file_of(const char *name, const char *folder, char **path, struct error *err) {
    *path = NULL;
    if (folder == NULL || name[0] == '\0' || name[0] == '/' || name[0] == '-') {
        return STATUS_OK;
    }
    *path = mem_format("%s/%s", folder, name);
    bool is_there = is_file(*path);
    if (is_there && trusted_file_check(*path, folder, err) == STATUS_OK) {
        return STATUS_OK;
    }
    free(*path);
    *path = NULL;
    return is_there ? err->code : STATUS_OK;
}

static char *find_in_path(const char *name) {
    const char *at = getenv("PATH");
    if (at == NULL) {
        at = "/usr/local/bin:/usr/bin:/bin";
    }
    for (;;) {
        size_t length = strcspn(at, ":");
        char *path = length == 0 ? mem_format("./%s", name) : mem_format("%.*s/%s", (int)length, at, name);
        if (length > 0 && is_program(path)) { /* an empty entry would be the work folder */
            return path;
        }
        free(path);
        if (at[length] == '\0') {
            return NULL;
        }
        at += length + 1;
    }
}

static enum status no_program(const char *name, const char *folder, struct error *err) {
    bool has_slash = strchr(name, '/') != NULL;
    if (name[0] == '/' || (has_slash && folder == NULL)) {
        return error_set(err, STATUS_NOT_FOUND, "there is no program %s", name);
    }
    return error_set(err, STATUS_NOT_FOUND, "there is no program '%s' in the pipeline's folder %s%s", name,
                     folder == NULL ? "(none)" : folder, has_slash ? "" : ", nor in PATH");
}

/* What PATH finds is the system's business. A file in the folder that is no program does not hide one. */
enum status find_program(const char *name, const char *folder, char **path, struct error *err) {
    bool has_slash = strchr(name, '/') != NULL;
    if (name[0] == '/') {
        *path = is_file(name) ? mem_copy_string(name) : NULL;
        if (*path != NULL && trusted_file_check(*path, NULL, err) != STATUS_OK) {
            free(*path);
            return err->code;
        }
    } else if (find_file_of(name, folder, path, err) != STATUS_OK) {
        return err->code;
    }
    if (*path != NULL && is_program(*path)) {
        return STATUS_OK;
    }
    if (*path != NULL && has_slash) {
        error_set(err, STATUS_NOT_FOUND, "the program %s is not executable (chmod +x makes it so)", *path);
        free(*path);
        return err->code;
    }
    free(*path);
    *path = has_slash ? NULL : find_in_path(name);
    return *path != NULL ? STATUS_OK : no_program(name, folder, err);
}
