/* result_pq.h - a db_result is libpq's PGresult under another name. Private to db/. */
#ifndef DB_RESULT_PQ_H
#define DB_RESULT_PQ_H

#include <libpq-fe.h>

#include "db/result.h"

static inline struct db_result *result_of_pq(PGresult *pq) {
    return (struct db_result *)(void *)pq;
}

/* libpq's accessors take their argument without const. */
static inline PGresult *result_pq(const struct db_result *result) {
    return (PGresult *)(void *)(uintptr_t)result;
}

#endif
