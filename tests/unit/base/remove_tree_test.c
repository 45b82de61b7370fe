#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/remove_tree.h"

static char place[] = "/tmp/pgstage-test-XXXXXX";
static int at = -1;

static void init(void) {
    cr_assert_not_null(mkdtemp(place));
    at = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(at, 0);
}

static void finish(void) {
    close(at);
    char command[128];
    snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", place, place);
    cr_assert_eq(system(command), 0);
}

TestSuite(remove_tree, .init = init, .fini = finish, .timeout = 60);

static void make(const char *script) {
    char command[1024];
    snprintf(command, sizeof command, "cd %s && %s", place, script);
    cr_assert_eq(system(command), 0, "%s", script);
}

static bool exists(const char *name) {
    struct stat found;
    return fstatat(at, name, &found, AT_SYMLINK_NOFOLLOW) == 0;
}

static void want_removed(const char *name) {
    struct error err = ERROR_NONE;
    cr_assert_eq(remove_tree(at, name, &err), STATUS_OK, "%s", err.text);
    cr_assert_not(exists(name));
}

Test(remove_tree, what_is_not_there_and_what_is_empty) {
    want_removed("nothing");
    make("mkdir empty");
    want_removed("empty");
}

Test(remove_tree, all_kinds_of_entries_go_and_links_are_not_followed) {
    make("mkdir -p t/a/b outside && touch t/f t/a/f t/a/b/f outside/precious && mkfifo t/fifo && ln -s ../outside t/link && "
         "ln -s ../../outside/precious t/a/link && ln -s nowhere t/dangling && ln -s .. t/a/b/up");
    want_removed("t");
    cr_assert(exists("outside/precious"));
}

Test(remove_tree, the_folder_itself_is_no_link) {
    make("mkdir outside && touch outside/precious && ln -s outside t");
    struct error err = ERROR_NONE;
    cr_assert_eq(remove_tree_empty(at, "t", NULL, NULL, &err), STATUS_NOT_FOUND);
    cr_assert(exists("outside/precious"));
}

Test(remove_tree, whatever_has_the_name) {
    make("mkdir -p folder/a outside empty && touch file folder/a/f outside/precious && ln -s outside link && mkfifo pipe");
    static const char *const names[] = {"nothing", "file", "link", "pipe", "empty", "folder"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct error err = ERROR_NONE;
        cr_assert_eq(remove_any(at, names[i], &err), STATUS_OK, "%s", err.text);
        cr_assert_not(exists(names[i]));
    }
    cr_assert(exists("outside/precious"));
    cr_assert_eq(remove_any(-1, "file", NULL), STATUS_INVALID);
}

/* Also for somebody who is not root, whom permissions stop. */
Test(remove_tree, folders_without_permissions) {
    make("mkdir -p t/closed/inner/more t/read t/enter && touch t/closed/inner/more/f t/read/f t/enter/f && "
         "chmod 0 t/closed/inner/more t/closed/inner t/closed && chmod 400 t/read && chmod 100 t/enter");
    if (geteuid() == 0) {
        make("chown -R 65534 .");
        cr_assert_eq(seteuid(65534), 0);
    }
    struct error err = ERROR_NONE;
    enum status status = remove_tree(at, "t", &err);
    (void)!seteuid(getuid());
    cr_assert_eq(status, STATUS_OK, "%s", err.text);
    cr_assert_not(exists("t"));
}

static int count_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* No descriptor and no stack for each level. */
Test(remove_tree, a_tree_deeper_than_any_path) {
    enum { DEPTH = 20000 };
    cr_assert_eq(mkdirat(at, "t", 0700), 0);
    int fd = openat(at, "t", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < DEPTH; i++) {
        cr_assert_eq(mkdirat(fd, "deep", 0700), 0);
        int next = openat(fd, "deep", O_RDONLY | O_DIRECTORY);
        cr_assert_geq(next, 0);
        close(fd);
        fd = next;
    }
    close(fd);
    int before = count_descriptors();
    want_removed("t");
    cr_assert_eq(count_descriptors(), before);
}

Test(remove_tree, many_entries_and_names_like_ours) {
    make("mkdir -p t && cd t && i=0 && while [ $i -lt 60 ]; do mkdir -p .removed-$i/x/y; : >.removed-$i/x/y/f; i=$((i+1)); done && "
         "seq 1 3000 | xargs touch");
    want_removed("t");
}

static bool keep_a(void *context, const char *name) {
    cr_assert_str_eq(context, "context");
    return strcmp(name, "a") == 0;
}

Test(remove_tree, some_may_be_kept) {
    char context[] = "context";
    struct error err = ERROR_NONE;
    make("mkdir -p t/a/a t/b/a && touch t/a/f t/c");
    cr_assert_eq(remove_tree_empty(at, "t", keep_a, context, &err), STATUS_OK, "%s", err.text);
    cr_assert(exists("t/a/a"));
    cr_assert(exists("t/a/f"));
    cr_assert_not(exists("t/b"));
    cr_assert_not(exists("t/c"));
}
