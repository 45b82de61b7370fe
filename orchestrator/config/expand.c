/* expand.c - ${NAME} and ${NAME:-default} in texts, and paths.
 *
 * As in a shell, the default is taken when the variable is not set or empty; it ends at the first
 * '}'. "$${" stands for "${"; any other '$' stands for itself. Text that came from a variable is
 * not looked at again. The sum of all replacements in a file is bounded: a large variable times
 * many uses would be an alias bomb by another name. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "config/loader.h"

enum { EXPANDED_MAX = 1024 * 1024, VARIABLE_NAME_MAX = 255 };

static size_t name_length(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return *text >= '0' && *text <= '9' ? 0 : strspn(text, letters);
}

static bool refuse(struct loader *loader, const struct tree_node *node, const char *at,
                   const char *hint, const char *message) {
    struct position place = node->at;
    if (!mistakes_are_enough(loader->mistakes)) {
        place = tree_position_inside(loader->source, node, (size_t)(at - node->text));
    }
    mistake_add(loader->mistakes, place, hint, "%s", message);
    return false;
}

static bool append_bounded(struct loader *loader, const struct tree_node *node, const char *at,
                           struct buf *out, const char *text, size_t length) {
    if (length > EXPANDED_MAX - loader->expanded_bytes) {
        loader->expanded_bytes = EXPANDED_MAX;
        return refuse(loader, node, at, NULL, "environment variables make more than 1 MB of text");
    }
    loader->expanded_bytes += length;
    buf_append(out, text, length);
    return true;
}

/* `at` stands at "${". Appends the value and returns what follows the '}', or NULL. */
static const char *replace(struct loader *loader, const struct tree_node *node, const char *at,
                           struct buf *out) {
    if (loader->expanded_bytes == EXPANDED_MAX) {
        return NULL; /* reported when it was reached */
    }
    const char *name = at + 2, *end = strchr(name, '}');
    size_t length = name_length(name);
    bool has_default = strncmp(name + length, ":-", 2) == 0;
    if (length == 0 || length > VARIABLE_NAME_MAX || end == NULL ||
        (!has_default && name + length != end)) {
        refuse(loader, node, at, "write '$${' for a text that holds '${'",
               "an environment variable is written ${NAME} or ${NAME:-default}");
        return NULL;
    }
    char copy[VARIABLE_NAME_MAX + 1];
    memcpy(copy, name, length);
    copy[length] = '\0';
    const char *value = getenv(copy);
    if (value != NULL && !utf8_is_valid(value, strlen(value))) {
        refuse(loader, node, at, NULL,
               arena_format(loader->scratch, "the environment variable %s is not UTF-8", copy));
        return NULL;
    }
    bool is_set = value != NULL && (*value != '\0' || !has_default);
    if (!is_set && !has_default) {
        refuse(loader, node, at,
               arena_format(loader->scratch, "set it, or write ${%s:-default}", copy),
               arena_format(loader->scratch, "the environment variable %s is not set", copy));
        return NULL;
    }
    const char *text = is_set ? value : name + length + 2;
    size_t text_length = is_set ? strlen(value) : (size_t)(end - text);
    return append_bounded(loader, node, at, out, text, text_length) ? end + 1 : NULL;
}

const char *expand_environment(struct loader *loader, const struct tree_node *node) {
    struct arena *arena = &loader->def->arena;
    if (strstr(node->text, "${") == NULL) {
        return arena_copy(arena, node->text, node->length);
    }
    struct buf out;
    buf_init(&out, SIZE_MAX);
    const char *at = node->text;
    while (at != NULL && *at != '\0') {
        if (strncmp(at, "$${", 3) == 0) {
            buf_append_string(&out, "${");
            at += 3;
        } else if (strncmp(at, "${", 2) == 0) {
            at = replace(loader, node, at, &out);
        } else {
            buf_append_char(&out, *at++);
        }
    }
    const char *text = at == NULL ? NULL : arena_copy(arena, out.data, out.length);
    if (out.length > TREE_TEXT_MAX) {
        mistake_add(loader->mistakes, node->at, NULL,
                    "this text is longer than %d kB with its environment variables",
                    TREE_TEXT_MAX / 1024);
        text = NULL;
    }
    buf_finish(&out);
    return text;
}

/* ---- paths --------------------------------------------------------------------------------- */

/* Without "." and empty parts. ".." stays: what it means depends on links. */
static const char *tidy(struct arena *arena, const char *path) {
    char *out = arena_alloc(arena, strlen(path) + 2);
    size_t length = 0;
    while (*path != '\0') {
        size_t part = strcspn(path, "/");
        if (part > 0 && !(part == 1 && path[0] == '.')) {
            out[length++] = '/';
            memcpy(out + length, path, part);
            length += part;
        }
        path += part;
        path += strspn(path, "/");
    }
    if (length == 0) {
        out[length++] = '/';
    }
    out[length] = '\0';
    return out;
}

const char *expand_folder(struct arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *folder = slash == NULL ? "." : arena_copy(arena, path, (size_t)(slash - path) + 1);
    if (folder[0] == '/') {
        return tidy(arena, folder);
    }
    char *working = getcwd(NULL, 0);
    if (working == NULL) {
        return NULL;
    }
    const char *joined = arena_format(arena, "%s/%s", working, folder);
    free(working);
    return tidy(arena, joined);
}

const char *expand_path(struct loader *loader, const struct tree_node *node) {
    struct arena *arena = &loader->def->arena;
    const char *path = expand_environment(loader, node);
    if (path == NULL) {
        return NULL;
    }
    if (path[0] == '\0') {
        mistake_add(loader->mistakes, node->at, "'.' is the folder of this file",
                    "'path' must be a folder, not ''");
        return NULL;
    }
    if (path[0] == '~') {
        const char *home = getenv("HOME");
        if (path[1] != '/' && path[1] != '\0') {
            mistake_add(loader->mistakes, node->at, "write './~...' for a name that begins so",
                        "'~' stands for your own home folder only, as '~' or '~/...'");
            return NULL;
        }
        if (home == NULL || home[0] != '/' || !utf8_is_valid(home, strlen(home))) {
            mistake_add(loader->mistakes, node->at, NULL,
                        "'~' needs the environment variable HOME, an absolute path");
            return NULL;
        }
        path = arena_format(arena, "%s/%s", home, path + 1);
    } else if (path[0] != '/') {
        path = arena_format(arena, "%s/%s", loader->def->folder, path);
    }
    return tidy(arena, path);
}
