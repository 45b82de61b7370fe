/* The example of docs/writing-producers.md, built as its reader would, against an installed SDK. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "producer.h"

TestSuite(installed, .timeout = 120, .init = producer_open, .fini = producer_close);

#ifdef __SANITIZE_ADDRESS__
#define SANITIZE "-fsanitize=address,undefined" /* as the libraries are built */
#else
#define SANITIZE ""
#endif

static const char script[] =
    "cd %s && exec >log 2>&1 && cmake --install %s --component sdk --prefix $PWD/sdk && "
    "sed -n '/^```c$/,/^```$/p' %s/docs/writing-producers.md | grep -v '^```' >letters.c && "
    "export PKG_CONFIG_PATH=$(echo $PWD/sdk/lib*/pkgconfig $PWD/sdk/lib/*/pkgconfig | tr ' ' ':') && "
    "cc -Wall -Wextra -Werror " SANITIZE " -o letters letters.c $(pkg-config --cflags --libs pgstage-client) "
    "-Wl,-rpath,$(pkg-config --variable=libdir pgstage-client) && unset LD_LIBRARY_PATH && "
    "./letters '%s'";

Test(installed, the_example_of_the_documentation_builds_and_works) {
    char folder[] = "/tmp/pgstage-client-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    expect_state("create table letters (id text); select pgstage.register('words', 'pipeline: words', '{a}', 'apply')", "");
    char *command = mem_format(script, folder, TEST_BINARY_DIR, TEST_SOURCE_DIR, producer_url);
    int status = system(command);
    char *show = mem_format("cat %s/log; rm -rf %s", folder, folder);
    cr_expect_eq(status == 0 ? 0 : system(show), 0);
    cr_assert_eq(status, 0);
    char *clean = mem_format("rm -rf %s", folder);
    cr_expect_eq(system(clean), 0);
    expect_text("select string_agg(concat_ws(' ', l.id, t.status, t.priority), ',' order by l.id)"
                " from letters l join pgstage.task t on t.key = l.id",
                "letter-1 ready 0,letter-2 ready -1");
    free(command);
    free(show);
    free(clean);
}
