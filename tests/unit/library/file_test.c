/* What a path may name. */
#include "file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[64], path[256];

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/pgstage-library-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static int remove_one(const char *name, const struct stat *info, int type, struct FTW *where) {
    (void)info;
    (void)type;
    (void)where;
    return remove(name);
}

static void remove_folder(void) {
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(library_file, .init = make_folder, .fini = remove_folder, .timeout = 20);

static const char *in_folder(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *content, size_t length) {
    int fd = open(in_folder(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, content, length), (ssize_t)length);
    close(fd);
}

static void expect(const char *name, enum outcome outcome, const char *word) {
    struct text bytes = {0};
    struct reason reason = {{0}};
    cr_assert_eq(file_read(in_folder(name), 1000, &bytes, &reason), outcome, "%s: %s", name,
                 reason.text);
    cr_assert_not_null(strstr(reason.text, word), "'%s' lacks '%s'", reason.text, word);
    text_finish(&bytes);
}

Test(library_file, gives_all_bytes) {
    write_file("a", "a\0\xFF\n", 4);
    struct text bytes = {0};
    struct reason reason;
    cr_assert_eq(file_read(in_folder("a"), 4, &bytes, &reason), OUTCOME_OK);
    cr_assert_eq(bytes.length, 4);
    cr_assert_arr_eq(bytes.data, "a\0\xFF\n", 4);
    text_finish(&bytes);
}

Test(library_file, says_what_is_no_document) {
    write_file("empty", "", 0);
    expect("empty", OUTCOME_BAD, "the file is empty");
    cr_assert_eq(mkdir(in_folder("folder.pdf"), 0755), 0);
    expect("folder.pdf", OUTCOME_BAD, "is a folder, not a document");
    cr_assert_eq(symlink("nowhere", in_folder("dangling")), 0);
    expect("dangling", OUTCOME_BAD, "is a link to a file that does not exist");
    cr_assert_eq(symlink("loop", in_folder("loop")), 0);
    expect("loop", OUTCOME_BAD, "leads back to itself");
    expect("vanished", OUTCOME_BAD, "the file is gone");
    expect("empty/below", OUTCOME_BAD, "the file is gone");
}

Test(library_file, never_waits_for_a_pipe_or_a_device) {
    cr_assert_eq(mkfifo(in_folder("pipe"), 0600), 0);
    expect("pipe", OUTCOME_BAD, "is a named pipe, not a document");
    cr_assert_eq(symlink("/dev/zero", in_folder("device")), 0);
    expect("device", OUTCOME_BAD, "is a device, not a document");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", in_folder("socket"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    expect("socket", OUTCOME_BAD, "is a socket, not a document");
    close(fd);
}

Test(library_file, refuses_what_is_too_large_without_reading_it) {
    write_file("large", "x", 1);
    cr_assert_eq(truncate(in_folder("large"), (off_t)5 << 30), 0);
    expect("large", OUTCOME_BAD, "too large: it has 5.0 GB, the limit (max_size) is 1000 bytes");
}

Test(library_file, says_when_it_may_not_read) {
    write_file("secret", "x", 1);
    cr_assert_eq(chmod(in_folder("secret"), 0), 0);
    cr_assert_eq(chmod(folder, 0755), 0);
    if (geteuid() == 0) {
        cr_assert_eq(seteuid(65534), 0);
    }
    expect("secret", OUTCOME_BAD, "permission denied");
    if (getuid() == 0) {
        cr_assert_eq(seteuid(0), 0);
    }
}

Test(library_file, a_path_that_is_too_long_is_refused) {
    char name[5000];
    memset(name, 'x', sizeof name - 1);
    name[0] = '/';
    name[sizeof name - 1] = '\0';
    struct text bytes = {0};
    struct reason reason = {{0}};
    cr_assert_eq(file_read(name, 1000, &bytes, &reason), OUTCOME_BAD);
    cr_assert_not_null(strstr(reason.text, "too long"));
}

static volatile int writing = 1;

static void *keep_writing(void *context) {
    int fd = *(int *)context;
    while (writing) {
        ssize_t ignored = write(fd, "more and more\n", 14);
        (void)ignored;
    }
    return NULL;
}

/* Half of a file that is being written must not pass for the whole: it is read again later. */
Test(library_file, a_growing_file_is_tried_again) {
    write_file("growing", "begin\n", 6);
    int fd = open(in_folder("growing"), O_WRONLY | O_APPEND);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, keep_writing, &fd), 0);
    int later = 0;
    for (int i = 0; i < 200 && later == 0; i++) {
        cr_assert_eq(truncate(path, 500000), 0);
        struct text bytes = {0};
        struct reason reason = {{0}};
        enum outcome outcome = file_read(path, 1 << 30, &bytes, &reason);
        later += outcome == OUTCOME_LATER;
        cr_assert_neq(outcome, OUTCOME_BAD, "%s", reason.text);
        cr_assert(outcome != OUTCOME_LATER || strstr(reason.text, "being written") != NULL);
        text_finish(&bytes);
    }
    writing = 0;
    pthread_join(thread, NULL);
    close(fd);
    cr_assert_gt(later, 0);
}

static void expect_unescaped(const char *escaped, const char *expected) {
    struct text out;
    text_init(&out, 100);
    bool done = file_unescape(escaped, &out);
    cr_expect_eq(done, expected != NULL, "%s", escaped);
    if (expected != NULL) {
        cr_expect_str_eq(text_string(&out), expected);
    }
    text_finish(&out);
}

Test(library_file, unescapes_paths) {
    expect_unescaped("/plain", "/plain");
    expect_unescaped("/a%FFb%0A%25", "/a\xFF"
                                     "b\n%");
    expect_unescaped("", "");
    expect_unescaped("%", NULL);
    expect_unescaped("%F", NULL);
    expect_unescaped("%ff", NULL);
    expect_unescaped("%00", NULL);
    expect_unescaped("%G0", NULL);
}

Test(library_file, sizes_read_well) {
    char out[32];
    cr_expect_str_eq(file_size_in_words(0, out), "0 bytes");
    cr_expect_str_eq(file_size_in_words(1023, out), "1023 bytes");
    cr_expect_str_eq(file_size_in_words(1024, out), "1.0 kB");
    cr_expect_str_eq(file_size_in_words((1 << 20) - 1, out), "1.0 MB");
    cr_expect_str_eq(file_size_in_words(INT64_C(200) << 20, out), "200.0 MB");
    cr_expect_str_eq(file_size_in_words(INT64_MAX, out), "8388608.0 TB");
}
