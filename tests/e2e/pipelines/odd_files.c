#include "odd_files.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "rig.h"
#include "support/pg.h"

#define WANTED "failed permanent 1 1 " /* status, kind, failed runs, attempts */

static const struct {
    const char *name, *reason; /* a part of the sentence, which differs by pipeline */
} cases[] = {
    {"empty", "the file is empty"},
    {"cut", "truncated"},
    {"folder", "is a folder, not a document"},
    {"pipe", "is a named pipe, not a document"},
    {"loop", "is a link that leads back to itself"},
    {"dangling", "is a link to a file that does not exist"},
    {"sparse", "the file is too large"},
    {"gone", "the file is gone"},
};

void odd_files_make(const char *ending) {
    shell("e=%s && mkdir -p $ROOT/files/folder.$e && cd $ROOT/files && : >empty.$e && "
          "{ [ $e != pdf ] || printf '%%%%PDF-1.7\\n1 0 obj\\n<<' >cut.pdf; } && mkfifo pipe.$e && ln -s loop.$e "
          "loop.$e && ln -s nothing dangling.$e && truncate -s 5G sparse.$e",
          ending);
}

void odd_files_failed(const char *ending) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, "cut") == 0 && strcmp(ending, "pdf") != 0) {
            continue;
        }
        char *sql = mem_format(
            "select t.status || ' ' || f.kind || ' ' || count(*) over () || ' ' || t.attempt || ' ' || t.error_text "
            "from pgstage.task t join pgstage.failure f on f.task = t.id where t.key = '%s.%s'",
            cases[i].name, ending);
        char *found = pg_text(database(), sql);
        cr_expect_eq(strncmp(found, WANTED, strlen(WANTED)), 0, "%s: '%s'", cases[i].name, found);
        cr_expect_not_null(strstr(found, cases[i].reason), "%s: '%s' lacks '%s'", cases[i].name, found,
                           cases[i].reason);
        free(found);
        free(sql);
    }
}
