/* new.c - pgstage new DIR: a pipeline to begin with, which builds and passes its own test at once. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/templates.h"
#include "config/scalar.h"

enum { FILES_MAX = 16, FILE_MAX_BYTES = 1024 * 1024 };

/* What was made so far: a failure takes it back. */
struct made {
    char *folder; /* as it was given, without slashes at its end */
    bool made_folder;
    char *files[FILES_MAX];
    int file_count;
};

static void finish(struct made *made, bool take_back) {
    for (int i = 0; i < made->file_count; i++) {
        if (take_back) {
            unlink(made->files[i]);
        }
        free(made->files[i]);
    }
    if (take_back && made->made_folder) {
        rmdir(made->folder);
    }
    free(made->folder);
}

/* ---- the name ----------------------------------------------------------------------------------------------------- */

/* The last part of the path as it is, or will be. Ownership: free() it. */
static char *name_of_folder(const char *folder) {
    char *real = realpath(folder, NULL);
    const char *path = real != NULL ? real : folder, *slash = strrchr(path, '/');
    char *name = mem_copy_string(slash != NULL ? slash + 1 : path);
    free(real);
    return name;
}

static enum exit_status refuse_name(const struct args *args, const char *name) {
    return usage_error(args,
                       "'%s' cannot be the name of a pipeline (letters a-z, digits, '_', '-' and '.', at most 63, the first a "
                       "letter, a digit or '_'); say another one with --name",
                       name);
}

static char *without_last_slashes(const char *path) {
    char *copy = mem_copy_string(path);
    for (size_t length = strlen(copy); length > 1 && copy[length - 1] == '/'; length--) {
        copy[length - 1] = '\0';
    }
    return copy;
}

/* ---- the folder --------------------------------------------------------------------------------------------------- */

static enum status want_empty(const char *folder, struct error *err) {
    DIR *listing = opendir(folder);
    if (listing == NULL) {
        return error_set_errno(err, STATUS_INVALID, errno, "cannot open %s", folder);
    }
    bool is_empty = true;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        is_empty = is_empty && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0);
    }
    closedir(listing);
    return is_empty ? STATUS_OK
                    : error_set(err, STATUS_INVALID, "%s is not empty: a new pipeline wants a folder of its own", folder);
}

static enum status have_folder(struct made *made, struct error *err) {
    if (mkdir(made->folder, 0777) == 0) {
        made->made_folder = true;
        return STATUS_OK;
    }
    if (errno == EEXIST) {
        return want_empty(made->folder, err);
    }
    if (errno == ENOENT) {
        return error_set(err, STATUS_INVALID, "cannot make the folder %s: %s; make the one above it first", made->folder,
                         strerror(errno));
    }
    return error_set_errno(err, STATUS_INVALID, errno, "cannot make the folder %s", made->folder);
}

/* ---- the files ---------------------------------------------------------------------------------------------------- */

static void put_with_name(struct buf *out, const char *text, const char *name) {
    static const char mark[] = "@NAME@";
    for (const char *at; (at = strstr(text, mark)) != NULL; text = at + sizeof mark - 1) {
        buf_append(out, text, (size_t)(at - text));
        buf_append_string(out, name);
    }
    buf_append_string(out, text);
}

static enum status write_text(const char *path, const struct buf *text, struct error *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        return error_set_errno(err, STATUS_INVALID, errno, "cannot make %s", path);
    }
    ssize_t written = write(fd, text->data, text->length); /* of a small file: whole, or the disk is full */
    int why = written < 0 ? errno : ENOSPC;
    if (close(fd) != 0 && written == (ssize_t)text->length) {
        written = -1;
        why = errno;
    }
    if (written == (ssize_t)text->length) {
        return STATUS_OK;
    }
    unlink(path);
    return error_set_errno(err, STATUS_INVALID, why, "cannot write %s", path);
}

static enum status write_template(struct made *made, const struct template *template, const char *name,
                                  struct error *err) {
    struct buf text;
    buf_init(&text, FILE_MAX_BYTES);
    put_with_name(&text, template->file, name);
    char *path = mem_format("%s/%s", made->folder, text.data);
    buf_clear(&text);
    put_with_name(&text, template->text, name);
    enum status code = write_text(path, &text, err);
    buf_finish(&text);
    if (code == STATUS_OK) {
        made->files[made->file_count++] = path;
    } else {
        free(path);
    }
    return code;
}

static enum status write_all(struct made *made, const char *name, struct error *err) {
    enum status code = have_folder(made, err);
    for (const struct template *template = templates; code == STATUS_OK && template->file != NULL; template++) {
        code = write_template(made, template, name, err);
    }
    return code;
}

/* Where pgstage is installed, when CMake would not look there by itself; "" otherwise. */
static void find_prefix(char *prefix, size_t size) {
    char self[PATH_MAX], header[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    for (int i = 0; i < 2; i++) { /* bin/pgstage */
        char *slash = strrchr(self, '/');
        *(slash != NULL ? slash : self) = '\0';
    }
    snprintf(header, sizeof header, "%s/include/pgstage/handler.h", self);
    bool is_known = strcmp(self, "/usr") == 0 || strcmp(self, "/usr/local") == 0;
    snprintf(prefix, size, "%s", is_known || access(header, R_OK) != 0 ? "" : self);
}

static void print_made(const struct made *made, const char *name) {
    for (int i = 0; i < made->file_count; i++) {
        printf("%s\n", text_shown(made->files[i]));
    }
    char prefix[PATH_MAX];
    find_prefix(prefix, sizeof prefix);
    printf("\nNext, in %s:\n", text_shown(made->folder));
    printf("  cmake -B build%s%s%s && cmake --build build && ctest --test-dir build\n",
           prefix[0] == '\0' ? "" : " '-DCMAKE_PREFIX_PATH=", text_shown(prefix), prefix[0] == '\0' ? "" : "'");
    printf("  pgstage apply %s.yaml\n  pgstage submit %s first --payload '{\"text\": \"a pipeline counts words\"}'\n", name, name);
    printf("  pgstage run %s.yaml --until-idle\n  pgstage show %s first\n", name, name);
}

static enum exit_status run_new(const struct args *args) {
    if (args->positional[0][0] == '\0') {
        return usage_error(args, "the name of the folder is empty");
    }
    struct made made = {.folder = without_last_slashes(args->positional[0])};
    const char *given = args_get(args, "name");
    char *name = given != NULL ? mem_copy_string(given) : name_of_folder(made.folder);
    enum exit_status status = EXIT_OK;
    struct error err = ERROR_NONE;
    if (!scalar_is_name(name)) {
        status = refuse_name(args, name);
    } else if (write_all(&made, name, &err) != STATUS_OK) {
        status = report_error(&err);
    } else {
        print_made(&made, name);
    }
    finish(&made, status != EXIT_OK);
    free(name);
    return status;
}

static const struct option_spec options[] = {
    {"name", "NAME", "of the pipeline; the folder's to begin with"},
    {0},
};

const struct command command_new = {
    .name = "new",
    .usage = "DIR [--name NAME]",
    .summary = "write a new pipeline with a handler in C and its test",
    .options = options,
    .min_positional = 1,
    .max_positional = 1,
    .no_database = true,
    .run = run_new,
};
