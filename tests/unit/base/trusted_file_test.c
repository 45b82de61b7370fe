/* C82a: what may be loaded. */
#include <criterion/criterion.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/trusted_file.h"

static char place[] = "/tmp/pgstage-test-XXXXXX";

static void make(const char *script) {
    char *command = mem_format("cd %s && %s", place, script);
    cr_assert_eq(system(command), 0, "%s", script);
    free(command);
}

static void init(void) {
    cr_assert_not_null(mkdtemp(place));
    make("umask 022 && mkdir -p p/lib elsewhere && touch p/h.so p/lib/h.so elsewhere/h.so && chmod 755 .");
}

static void finish(void) {
    char *command = mem_format("rm -rf %s", place);
    cr_assert_eq(system(command), 0);
    free(command);
}

TestSuite(trusted_file, .init = init, .fini = finish, .timeout = 30);

/* `reason` NULL: it is trusted. */
static void expect(const char *file, bool inside, const char *reason) {
    struct error err = ERROR_NONE;
    char *path = mem_format("%s/p/%s", place, file), *folder = mem_format("%s/p", place);
    enum status status = trusted_file_check(path, inside ? folder : NULL, &err);
    if (reason == NULL) {
        cr_expect_eq(status, STATUS_OK, "%s: %s", file, err.text);
    } else {
        cr_expect_neq(status, STATUS_OK, "%s", file);
        cr_expect_not_null(strstr(err.text, reason), "%s", err.text);
    }
    free(path);
    free(folder);
}

Test(trusted_file, it_lies_in_the_folder_or_is_said_to_lie_elsewhere) {
    expect("h.so", true, NULL);
    expect("lib/h.so", true, NULL);
    expect("lib/../h.so", true, NULL);
    expect("../elsewhere/h.so", true, "lies outside of the pipeline's folder, at ");
    expect("../elsewhere/h.so", false, NULL);
    make("ln -s ../elsewhere/h.so p/link.so && ln -s ../elsewhere p/folder && ln -s lib/h.so p/inner.so && mkdir pp && touch "
         "pp/h.so && ln -s ../pp/h.so p/near.so");
    expect("link.so", true, "give its absolute path if that is meant");
    expect("folder/h.so", true, "lies outside");
    expect("near.so", true, "lies outside");
    expect("inner.so", true, NULL);
    expect("nothing.so", true, "No such file");
}

Test(trusted_file, it_is_a_regular_file) {
    make("mkfifo p/fifo && ln -s /dev/null p/null");
    expect("lib", true, "is not a regular file");
    expect("fifo", true, "is not a regular file");
    expect("null", false, "is not a regular file");
}

Test(trusted_file, not_everybody_may_write_to_it) {
    make("chmod o+w p/h.so");
    expect("h.so", true, "everybody may write to it (chmod o-w ");
    make("chmod o+w p/lib");
    expect("lib/h.so", true, "everybody may write to its folder (chmod o-w ");
    make("chmod +t p/lib");
    expect("lib/h.so", true, NULL); /* as /tmp: nobody removes another's file */
    make("ln -s lib/h.so p/link.so && chmod -t p/lib");
    expect("link.so", true, "everybody may write to its folder"); /* the one that it really lies in */
}

/* A group of several, and one as distributions make it for each user. */
Test(trusted_file, no_group_of_others_may_write_to_it) {
    make("chmod g+w p/h.so p/lib");
    const struct passwd *user = getpwuid(geteuid());
    const struct group *own = user == NULL ? NULL : getgrgid(getegid());
    if (own != NULL && strcmp(own->gr_name, user->pw_name) == 0) {
        expect("h.so", true, NULL);
        expect("lib/h.so", true, NULL);
    }
    if (geteuid() != 0) {
        return;
    }
    const struct passwd *daemon = getpwnam("daemon");
    if (daemon != NULL && daemon->pw_gid == daemon->pw_uid) {
        make("chown daemon:daemon p/h.so p/lib");
        expect("h.so", true, NULL);
        expect("lib/h.so", true, NULL);
        make("chgrp users p/h.so p/lib");
        expect("h.so", true, "other users of a group may write to it (chmod g-w ");
        expect("lib/h.so", true, "other users of a group may write to its folder (chmod g-w ");
    }
    make("chown 54321:54321 p/h.so p/lib"); /* of no name, as in a container */
    expect("h.so", true, NULL);
    make("chown 54321:54322 p/h.so");
    expect("h.so", true, "other users of a group may write to it");
}
