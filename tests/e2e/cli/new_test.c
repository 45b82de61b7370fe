/* pgstage new: what it writes builds against an installed pgstage, passes its test, and runs. */
#include <stdlib.h>

#include "rig.h"

TestSuite(new, .init = cli_begin_without_database, .fini = cli_end, .timeout = 120);

static void expect_files(const char *folder, const char *name) {
    const char *expected = ".gitignore CMakeLists.txt README.md handler.c handler_test.c";
    cr_assert_eq(shell("cd %s && ls %s %s.yaml && [ $(ls -A | wc -l) = 6 ]", folder, expected, name)->status, 0);
    cr_assert_str_eq(shell("grep -rl @NAME@ %s; true", folder)->out, "");
}

Test(new, writes_a_pipeline_of_the_folders_name) {
    struct run *run = cli("new letters//");
    cr_assert_eq(run->status, 0, "%s", run->err);
    cr_assert(has(run->out, "letters/letters.yaml\nletters/handler.c\n"), "%s", run->out);
    cr_assert(has(run->out, "\nNext, in letters:\n  cmake -B build && "), "not installed: %s", run->out);
    expect_files("letters", "letters");
}

Test(new, the_folder_may_be_there_and_empty) {
    shell("mkdir empty");
    cr_assert_eq(cli("new empty/")->status, 0);
    expect_files("empty", "empty");
    cr_assert_eq(shell("mkdir here && cd here && $PGSTAGE new .")->status, 0);
    expect_files("here", "here");
}

Test(new, the_name_may_be_another) {
    cr_assert_eq(cli("new 'a folder' --name letters")->status, 0);
    expect_files("'a folder'", "letters");
    cr_assert_str_eq(shell("grep ^pipeline: 'a folder/letters.yaml'")->out, "pipeline: letters\n");
}

Test(new, what_is_there_stays_as_it_is) {
    shell("mkdir used && echo mine >used/.hidden && echo file >file");
    cli_refuses(2, "pgstage: used is not empty: a new pipeline wants a folder of its own", "new used");
    cr_assert_str_eq(shell("ls -A used && cat used/.hidden")->out, ".hidden\nmine\n");
    cli_refuses(2, "pgstage: cannot open file: Not a directory", "new file");
    cli_refuses(2, "pgstage: cannot make the folder no/where: No such file or directory; make the one above it first",
                "new no/where");
    cli_refuses(2, "pgstage new: the name of the folder is empty", "new ''");
}

Test(new, a_name_that_no_pipeline_may_have_is_refused) {
    cli_refuses(2,
                "pgstage new: '-x y' cannot be the name of a pipeline (letters a-z, digits, '_', '-' and '.', at most 63, the "
                "first a letter, a digit or '_'); say another one with --name",
                "new './-x y'");
    cr_assert_eq(cli("new folder --name ''")->status, 2);
    cr_assert_str_eq(shell("ls")->out, "");
}

/* The folder exists, and nothing can be written into it. */
Test(new, a_failure_leaves_nothing_behind) {
    struct run *run = shell("(ulimit -f 0; trap '' XFSZ; exec $PGSTAGE new full) 2>&1 | cat");
    cr_assert(has(run->out, "cannot write full/full.yaml: "), "%s", run->out);
    cr_assert_str_eq(shell("ls")->out, "");
}

#ifdef __SANITIZE_ADDRESS__
#define SANITIZE "-fsanitize=address,undefined" /* as the libraries are built */
#else
#define SANITIZE ""
#endif

TestSuite(new_pipeline, .init = cli_begin, .fini = cli_end, .timeout = 300);

static void must(const char *command) {
    struct run *run = shell("unset LD_LIBRARY_PATH; export PATH=$PWD/prefix/bin:$PATH; %s", command);
    cr_assert_eq(run->status, 0, "%s\n%s%s", command, run->out, run->err);
}

/* The first block of C behind a heading of docs/writing-handlers.md, into a file. */
#define BLOCK(HEADING, FILE) \
    "awk '/^## " HEADING "/ {here = 1} here && /^```$/ && inside {exit} inside; here && /^```c$/ {inside = 1}' " \
    TEST_SOURCE_DIR "/docs/writing-handlers.md >" FILE " && [ -s " FILE " ] && "

Test(new_pipeline, the_unit_test_of_the_documentation_builds_and_passes) {
    must("cmake --install " TEST_BINARY_DIR " --component sdk --prefix $PWD/prefix");
    must(BLOCK("The first one", "shout.c") BLOCK("Testing handlers", "shout_test.c")
         "export PKG_CONFIG_PATH=$(echo $PWD/prefix/lib*/pkgconfig $PWD/prefix/lib/*/pkgconfig | tr ' ' ':') && "
         "cc -Wall -Wextra -Werror " SANITIZE " -o shout_test shout_test.c shout.c "
         "$(pkg-config --cflags --libs pgstage-test) -Wl,-rpath,$(pkg-config --variable=libdir pgstage-test) && ./shout_test");
}

Test(new_pipeline, builds_passes_its_test_and_runs) {
    must("cmake --install " TEST_BINARY_DIR " --prefix $PWD/prefix");
    must("cd prefix/share/man/man3 && [ -f pgstage_output.3 ] && grep -qx '.so man3/pgstage_output.3' pgstage_set_output.3");
    must("pgstage new letters >said");
    must("grep -qx \"  cmake -B build '-DCMAKE_PREFIX_PATH=$PWD/prefix' && cmake --build build && ctest --test-dir build\" said");
    must("grep -qx '  pgstage run letters.yaml --until-idle' said");
    must("cd letters && cmake -B build -DCMAKE_PREFIX_PATH=$PWD/../prefix -DCMAKE_C_FLAGS='-Werror " SANITIZE "' && "
         "cmake --build build && ctest --test-dir build --output-on-failure");
    must("cd letters && pgstage check letters.yaml && pgstage apply letters.yaml && "
         "pgstage submit letters first --payload '{\"text\": \"a pipeline counts words\"}' && "
         "pgstage run letters.yaml --until-idle --log warn && pgstage show letters first");
    char *longest = text("select value->>'longest' from pgstage.output");
    cr_assert_str_eq(longest, "pipeline");
    free(longest);
    cr_assert_eq(number("select (value->>'words')::int from pgstage.output"), 3);
}
