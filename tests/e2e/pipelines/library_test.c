/* library_test.c - the pipeline `library` on what a folder holds beside documents: C75. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "odd_files.h"
#include "rig.h"

static void init(void) {
    pipeline_begin("library");
    shell("mkdir $ROOT/files && psql -f schema.sql && sed -i 's/every: 10s/every: 500ms/' library.yaml");
}

TestSuite(library, .init = init, .fini = pipeline_end, .timeout = 180);

Test(library, odd_files_fail_at_once_with_a_reason_and_the_others_are_read) {
    odd_files_make("pdf");
    shell("cd $ROOT/files && echo 'The good one.' >good.txt && printf '\\211PNG\\r\\n\\032\\n' >odd.txt");
    shell("pgstage apply library.yaml && "
          "pgstage submit library gone.pdf --payload '{\"path\": \"'$ROOT'/files/gone.pdf\"}'");
    const char *said;
    int status = shell_status(&said, "LIBRARY_FOLDER=$ROOT/files pgstage run library.yaml --until-idle");
    cr_assert_eq(status, 1, "%d: %s", status, said);
    odd_files_failed("pdf");
    cr_expect_eq(number("select count(*) from pgstage.task where status = 'failed'"), 9);
    expect_text("select string_agg(key, ' ') from library.document", "good.txt");
}

/* In a process of its own: one byte every now and then, until it is killed. */
static pid_t start_writer(const char *path) {
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_WRONLY | O_APPEND);
        struct timespec pause = {.tv_nsec = 50 * 1000};
        while (write(fd, "x", 1) == 1) {
            nanosleep(&pause, NULL);
        }
        _exit(1);
    }
    return pid;
}

Test(library, a_file_that_is_being_written_waits_and_a_file_that_is_put_right_is_read) {
    shell("cd $ROOT/files && yes 'A line of the growing file.' | head -n 40000 >growing.txt && : >empty.txt");
    char *path = mem_format("%s/files/growing.txt", root());
    pid_t writer = start_writer(path);
    free(path);
    node_start("LIBRARY_FOLDER=$ROOT/files");
    await("select (count(*) > 0)::int from pgstage.failure where kind = 'error' and error_text = "
          "'the file was being written while it was read'",
          1);
    await("select count(*) from pgstage.task where key = 'empty.txt' and status = 'failed'", 1);
    cr_assert_eq(kill(writer, SIGKILL), 0);
    cr_assert_eq(waitpid(writer, NULL, 0), writer);
    shell("echo 'It is there now.' >$ROOT/files/empty.txt");
    await("select count(*) from pgstage.task where status = 'done'", 2);
    expect_text("select string_agg(key, ' ' order by key) from library.document", "empty.txt growing.txt");
    expect_text("select string_agg(key, ' ') from library.search('growing')", "growing.txt");
    node_stop();
}
