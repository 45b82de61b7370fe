#include "worker/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/trusted_file.h"

/* What every version of the registration has; and more than any will ever have. */
#define SIZE_MIN (offsetof(struct pgstage_handler, run) + sizeof((struct pgstage_handler *)0)->run)
enum { SIZE_MAX_SANE = 4096, EXPORTS_MAX_BYTES = 512 };

/* The loader's own words for these two are "invalid ELF header" and the like. */
static enum status check_file(const char *file, struct error *err) {
    if (file[0] != '/') {
        return error_set(err, STATUS_INVALID, "the handler file '%s' is no absolute path", file);
    }
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == EACCES) {
        const struct passwd *user = getpwuid(geteuid());
        return error_set(err, STATUS_NOT_FOUND, "cannot open %s: the user '%s', as whom the worker runs, may not read it", file,
                         user == NULL ? "?" : user->pw_name);
    }
    if (fd < 0) {
        return error_set_errno(err, STATUS_NOT_FOUND, errno, "cannot open %s", file);
    }
    char magic[4] = {0};
    ssize_t got = read(fd, magic, sizeof magic);
    close(fd);
    if (got != sizeof magic || memcmp(magic, "\177ELF", sizeof magic) != 0) {
        return error_set(err, STATUS_INVALID,
                         "%s is not a shared object (build it with: cc -shared -fPIC)", file);
    }
    return STATUS_OK;
}

static enum status open_library(const char *file, void **library, struct error *err) {
    if (check_file(file, err) != STATUS_OK || trusted_file_check(file, NULL, err) != STATUS_OK) {
        return err->code;
    }
    *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (*library == NULL) {
        const char *why = dlerror();
        size_t prefix = strlen(file);
        if (strncmp(why, file, prefix) == 0 && strncmp(why + prefix, ": ", 2) == 0) {
            why += prefix + 2;
        }
        return error_set(err, STATUS_INVALID, "cannot load %s: %s", file, why);
    }
    return STATUS_OK;
}

static enum status no_such_handler(void *library, const char *file, const char *name,
                                   struct error *err) {
    struct buf names;
    buf_init(&names, EXPORTS_MAX_BYTES);
    plugin_list_exports(library, &names);
    if (names.length > 0) {
        error_set(err, STATUS_NOT_FOUND, "%s has no handler '%s'; it exports: %s%s", file, name,
                  names.data, names.overflow ? ", ..." : "");
    } else {
        error_set(err, STATUS_NOT_FOUND,
                  "%s has no handler '%s'; it exports none (PGSTAGE_HANDLER registers one)", file,
                  name);
    }
    buf_finish(&names);
    return STATUS_NOT_FOUND;
}

static enum status check_handler(const struct pgstage_handler *found, const char *file,
                                 const char *name, struct error *err) {
    if (found->abi > PGSTAGE_ABI) {
        return error_set(err, STATUS_INVALID,
                         "handler '%s' of %s was built for handler ABI %u, newer than this "
                         "pgstage, which knows %u: update pgstage or build it against its header",
                         name, file, (unsigned)found->abi, PGSTAGE_ABI);
    }
    if (found->abi == 0 || found->struct_size < SIZE_MIN || found->struct_size > SIZE_MAX_SANE) {
        return error_set(err, STATUS_INVALID,
                         "handler '%s' of %s is not a registration (PGSTAGE_HANDLER makes one)",
                         name, file);
    }
    return STATUS_OK;
}

enum status plugin_load(const char *file, const char *name, struct pgstage_handler *handler,
                        struct error *err) {
    void *library;
    if (open_library(file, &library, err) != STATUS_OK) {
        return err->code;
    }
    char *symbol = mem_format("pgstage_handler_%s", name);
    const struct pgstage_handler *found = dlsym(library, symbol);
    free(symbol);
    if (found == NULL) {
        return no_such_handler(library, file, name, err);
    }
    if (check_handler(found, file, name, err) != STATUS_OK) {
        return err->code;
    }
    size_t size = found->struct_size < sizeof *handler ? found->struct_size : sizeof *handler;
    *handler = (struct pgstage_handler){0};
    memcpy(handler, found, size);
    if (handler->run == NULL && handler->run_batch == NULL) {
        return error_set(err, STATUS_INVALID, "handler '%s' of %s has neither a .run nor a .run_batch function", name,
                         file);
    }
    return STATUS_OK;
}
