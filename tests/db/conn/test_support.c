/* The private cluster itself. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "support/pg.h"

Test(support_pg, makes_databases, .timeout = 60) {
    char *first = pg_new_database();
    char *second = pg_new_migrated_database();
    pg_exec(first, "create table t (n int); insert into t values (7)");
    cr_assert_eq(pg_int(first, "select n from t"), 7);
    cr_assert_eq(pg_int(second, "select count(*) from pg_namespace where nspname = 'pgstage'"), 1);
    free(first);
    free(second);
}
