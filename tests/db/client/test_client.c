/* The C client: results and errors of each document, in the caller's transaction or without one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "pgstage/client.h"
#include "producer.h"
#include "support/pg.h"

TestSuite(client, .timeout = 120, .init = producer_open, .fini = producer_close);

static struct pgstage_client_error error;

#define EXPECT_CODE(call, wanted)                                                                                              \
    do {                                                                                                                       \
        enum pgstage_client_code got = (call);                                                                                 \
        cr_expect_eq(got, (wanted), "%d: %s", (int)got, error.text);                                                           \
        cr_expect_eq(error.code, got);                                                                                         \
    } while (0)

Test(client, submits_one_and_says_what_became_of_it) {
    struct pgstage_document document = {.key = "k\"\\{},", .payload = "{\"text\": \"\\\"quoted\\\" \\\\ äöü\"}"};
    struct pgstage_submitted submitted;
    EXPECT_CODE(pgstage_submit(producer, "p", &document, NULL, &submitted, &error), PGSTAGE_CLIENT_OK);
    cr_expect_eq(submitted.outcome, PGSTAGE_NEW);
    cr_expect_eq(submitted.version, 1);
    expect_text("select key || ' ' || (payload->>'text') from pgstage.task", "k\"\\{}, \"quoted\" \\ äöü");
    document.updated_at = "2001-01-01 00:00:00+00";
    EXPECT_CODE(pgstage_submit(producer, "p", &document, NULL, &submitted, &error), PGSTAGE_CLIENT_OK);
    cr_expect_eq(submitted.outcome, PGSTAGE_UNCHANGED);
    cr_expect_eq(submitted.task, 0);
    struct pgstage_submit_options options = {.if_changed = true};
    document.has_priority = true;
    document.priority = -7;
    EXPECT_CODE(pgstage_submit(producer, "p", &document, &options, &submitted, NULL), error.code);
    cr_expect_eq(submitted.outcome, PGSTAGE_UPDATED);
    cr_expect_eq(submitted.version, 2);
    document.updated_at = NULL;
    document.run_at = "2999-01-01";
    EXPECT_CODE(pgstage_submit(producer, "p", &document, NULL, NULL, &error), PGSTAGE_CLIENT_OK);
    expect_text("select concat_ws(' ', status, priority) from pgstage.task", "delayed -7");
    EXPECT_CODE(pgstage_submit_many(producer, "p", NULL, 0, NULL, NULL, &error), PGSTAGE_CLIENT_OK);
}

/* `count` documents with keys k0, k1, ... Ownership: free each key, and the array. */
static struct pgstage_document *make_documents(size_t count) {
    struct pgstage_document *documents = mem_alloc(count * sizeof *documents);
    for (size_t i = 0; i < count; i++) {
        documents[i] = (struct pgstage_document){.key = mem_format("k%zu", i), .payload = "{\"a\": 1}"};
    }
    return documents;
}

static void free_documents(struct pgstage_document *documents, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)documents[i].key);
    }
    free(documents);
}

/* Without a transaction: chunks before the bad one are committed, nothing of its own is. */
Test(client, a_bad_document_is_named_and_its_chunk_not_half_applied) {
    enum { COUNT = 3500 };
    static const size_t bad_ones[] = {1000, 1731, 2999};
    static const struct {
        const char *payload, *updated_at, *run_at;
    } faults[] = {{"{\"a\": ", NULL, NULL}, {"{}", "yesterdayish", NULL}, {"\"\\u0000\"", NULL, NULL}, {"1", NULL, "32 May"}};
    struct pgstage_document *documents = make_documents(COUNT);
    struct pgstage_submitted *submitted = mem_alloc(COUNT * sizeof *submitted);
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < 4; k++) {
            struct pgstage_document *bad = &documents[bad_ones[i]], good = *bad;
            bad->payload = faults[k].payload;
            bad->updated_at = faults[k].updated_at;
            bad->run_at = faults[k].run_at;
            EXPECT_CODE(pgstage_submit_many(producer, "p", documents, COUNT, NULL, submitted, &error), PGSTAGE_CLIENT_INVALID);
            cr_expect_eq(error.document, bad_ones[i], "%zu: %s", error.document, error.text);
            cr_expect_eq(strncmp(error.sqlstate, "22", 2), 0, "%s", error.sqlstate);
            size_t committed = bad_ones[i] / 1000 * 1000;
            cr_expect_eq(producer_number("select count(*) from pgstage.task"), (int64_t)committed);
            cr_expect_neq(submitted[committed - 1].outcome, PGSTAGE_NOT_SUBMITTED);
            cr_expect_eq(submitted[committed].outcome, PGSTAGE_NOT_SUBMITTED);
            *bad = good;
        }
    }
    EXPECT_CODE(pgstage_submit_many(producer, "p", documents, COUNT, NULL, submitted, &error), PGSTAGE_CLIENT_OK);
    cr_expect_eq(submitted[COUNT - 1].outcome, PGSTAGE_NEW);
    cr_expect_eq(producer_number("select count(*) from pgstage.task"), COUNT);
    free(submitted);
    free_documents(documents, COUNT);
}

Test(client, a_failure_leaves_the_callers_transaction_as_it_was) {
    expect_state("create table own (n int); begin; insert into own values (1)", "");
    struct pgstage_document documents[] = {{.key = "a"}, {.key = "b", .payload = "nonsense"}, {.key = "c"}};
    EXPECT_CODE(pgstage_submit_many(producer, "p", documents, 3, NULL, NULL, &error), PGSTAGE_CLIENT_INVALID);
    cr_expect_eq(error.document, 1);
    EXPECT_CODE(pgstage_submit(producer, "nobody", documents, NULL, NULL, &error), PGSTAGE_CLIENT_NO_PIPELINE);
    cr_expect_eq(error.document, PGSTAGE_NO_DOCUMENT);
    cr_expect_str_eq(error.sqlstate, "P0F02");
    EXPECT_CODE(pgstage_submit(producer, "p", &documents[0], NULL, NULL, &error), PGSTAGE_CLIENT_OK);
    cr_expect_eq(PQtransactionStatus(producer), PQTRANS_INTRANS);
    cr_expect_eq(producer_number("select count(*) from pgstage.task"), 0, "it is seen before the commit");
    expect_state("savepoint own; rollback to pgstage_submit", "3B001"); /* a savepoint of ours was left behind */
    expect_state("rollback to own", "");
    expect_state("commit", "");
    cr_expect_eq(producer_number("select count(*) from own"), 1);
    expect_text("select string_agg(key, ',') from pgstage.task", "a");
    expect_state("begin", "");
    EXPECT_CODE(pgstage_submit(producer, "p", &documents[2], NULL, NULL, &error), PGSTAGE_CLIENT_OK);
    expect_state("rollback", "");
    cr_expect_eq(producer_number("select count(*) from pgstage.task"), 1);
}

Test(client, keys_are_checked_and_may_come_again) {
    char *long_key = mem_alloc(1026);
    memset(long_key, 'k', 1025);
    struct pgstage_document documents[] = {{.key = "a", .payload = "1"}, {.key = "b"}, {.key = "a", .payload = "2"}, {.key = ""}};
    struct pgstage_submitted submitted[4];
    EXPECT_CODE(pgstage_submit_many(producer, "p", documents, 3, NULL, submitted, &error), PGSTAGE_CLIENT_OK);
    cr_expect_eq(submitted[0].task, submitted[2].task);
    cr_expect_eq(submitted[2].outcome, PGSTAGE_UPDATED);
    expect_text("select payload from pgstage.task where key = 'a'", "2");
    EXPECT_CODE(pgstage_submit_many(producer, "p", documents, 4, NULL, submitted, &error), PGSTAGE_CLIENT_INVALID);
    cr_expect_eq(error.document, 3);
    documents[3].key = long_key;
    EXPECT_CODE(pgstage_submit(producer, "p", &documents[3], NULL, NULL, &error), PGSTAGE_CLIENT_INVALID);
    cr_expect_eq(error.document, 0, "the server would not say whose it is");
    long_key[1024] = '\0';
    EXPECT_CODE(pgstage_submit(producer, "p", &documents[3], NULL, NULL, &error), PGSTAGE_CLIENT_OK);
    documents[3].key = NULL;
    EXPECT_CODE(pgstage_submit(producer, "p", &documents[3], NULL, NULL, &error), PGSTAGE_CLIENT_INVALID);
    documents[3].key = "bad \xff bytes";
    EXPECT_CODE(pgstage_submit(producer, "p", &documents[3], NULL, NULL, &error), PGSTAGE_CLIENT_INVALID);
    cr_expect_eq(error.document, 0);
    free(long_key);
}

Test(client, a_long_message_is_cut_between_characters) {
    struct buf stamp;
    buf_init(&stamp, 4096);
    buf_append_char(&stamp, 'x');
    for (int i = 0; i < 400; i++) {
        buf_append_string(&stamp, "ä");
    }
    struct pgstage_document document = {.key = "k", .updated_at = stamp.data};
    EXPECT_CODE(pgstage_submit(producer, "p", &document, NULL, NULL, &error), PGSTAGE_CLIENT_INVALID);
    cr_expect_gt(strlen(error.text), sizeof error.text - 4);
    cr_expect(utf8_is_valid(error.text, strlen(error.text)), "%s", error.text);
    buf_finish(&stamp);
}

Test(client, a_connection_that_cannot_be_used_is_left_alone) {
    struct pgstage_document document = {.key = "k"};
    expect_state("begin", "");
    expect_state("select 1/0", "22012");
    EXPECT_CODE(pgstage_submit(producer, "p", &document, NULL, NULL, &error), PGSTAGE_CLIENT_STATE);
    cr_expect_eq(PQtransactionStatus(producer), PQTRANS_INERROR);
    expect_state("rollback", "");
    cr_assert_eq(PQsendQuery(producer, "select pg_sleep(0)"), 1);
    EXPECT_CODE(pgstage_submit(producer, "p", &document, NULL, NULL, &error), PGSTAGE_CLIENT_STATE);
    for (PGresult *result; (result = PQgetResult(producer)) != NULL;) {
        PQclear(result);
    }
    cr_assert_eq(PQenterPipelineMode(producer), 1);
    EXPECT_CODE(pgstage_submit(producer, "p", &document, NULL, NULL, &error), PGSTAGE_CLIENT_STATE);
    cr_assert_eq(PQexitPipelineMode(producer), 1);
    expect_state("set statement_timeout = '20ms'; begin", "");
    producer_exec("begin; select pgstage.submit('p', 'k')");
    EXPECT_CODE(pgstage_submit(producer, "p", &document, NULL, NULL, &error), PGSTAGE_CLIENT_CONFLICT);
    cr_expect_str_eq(error.sqlstate, "57014");
    cr_expect_eq(PQtransactionStatus(producer), PQTRANS_INTRANS);
    producer_exec("rollback; select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
                  " and (query like 'rollback to%' or query like 'release%')");
    EXPECT_CODE(pgstage_submit(producer, "p", &document, NULL, NULL, &error), PGSTAGE_CLIENT_LOST);
    EXPECT_CODE(pgstage_submit(producer, "p", &document, NULL, NULL, &error), PGSTAGE_CLIENT_LOST);
    cr_expect_str_eq(error.text, "there is no connection");
    EXPECT_CODE(pgstage_submit(NULL, "p", &document, NULL, NULL, &error), PGSTAGE_CLIENT_LOST);
}

Test(client, a_chunk_is_bounded_in_bytes_too) {
    enum { COUNT = 40 };
    char *text = mem_alloc(1000003);
    memset(text, 'x', 1000002);
    text[0] = text[1000001] = '"';
    struct pgstage_document *documents = make_documents(COUNT);
    for (int i = 0; i < COUNT; i++) {
        documents[i].payload = text;
    }
    EXPECT_CODE(pgstage_submit_many(producer, "p", documents, COUNT, NULL, NULL, &error), PGSTAGE_CLIENT_OK);
    cr_expect_eq(producer_number("select count(*) from pgstage.task"), COUNT);
    cr_expect_eq(producer_number("select count(distinct xmin::text) from pgstage.task"), 5);
    free_documents(documents, COUNT);
    free(text);
}

/* Between two others, and larger than a chunk by itself. */
Test(client, a_document_that_is_larger_than_a_chunk_goes_alone) {
    char *text = mem_alloc(PGSTAGE_CHUNK_BYTES + 3);
    memset(text, 'x', PGSTAGE_CHUNK_BYTES + 2);
    text[0] = text[PGSTAGE_CHUNK_BYTES + 1] = '"';
    struct pgstage_document documents[] = {{.key = "a"}, {.key = "b", .payload = text}, {.key = "c"}};
    EXPECT_CODE(pgstage_submit_many(producer, "p", documents, 3, NULL, NULL, &error), PGSTAGE_CLIENT_OK);
    cr_expect_eq(producer_number("select count(distinct xmin::text) from pgstage.task"), 3);
    free(text);
}

/* What the server says is told by what can be done about it; no document is blamed for what is not in one. */
Test(client, each_refusal_has_its_code) {
    static const struct {
        const char *sqlstate;
        enum pgstage_client_code code;
    } refusals[] = {
        {"22P02", PGSTAGE_CLIENT_INVALID},     {"23505", PGSTAGE_CLIENT_INVALID},     {"54000", PGSTAGE_CLIENT_INVALID},
        {"54001", PGSTAGE_CLIENT_REFUSED},     {"P0F02", PGSTAGE_CLIENT_NO_PIPELINE}, {"40001", PGSTAGE_CLIENT_CONFLICT},
        {"40P01", PGSTAGE_CLIENT_CONFLICT},    {"55P03", PGSTAGE_CLIENT_CONFLICT},    {"55000", PGSTAGE_CLIENT_REFUSED},
        {"57014", PGSTAGE_CLIENT_CONFLICT},    {"57P03", PGSTAGE_CLIENT_UNAVAILABLE}, {"53100", PGSTAGE_CLIENT_UNAVAILABLE},
        {"25006", PGSTAGE_CLIENT_UNAVAILABLE}, {"25001", PGSTAGE_CLIENT_REFUSED},     {"08P01", PGSTAGE_CLIENT_LOST},
        {"42501", PGSTAGE_CLIENT_REFUSED},     {"P0001", PGSTAGE_CLIENT_REFUSED},
    };
    struct pgstage_document documents[] = {{.key = "a"}, {.key = "b"}, {.key = "c"}};
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        char *sql = mem_format("create or replace function refuse() returns trigger language plpgsql as $$ begin raise"
                               " E'not\nnow \n' using errcode = '%s'; end $$; drop trigger if exists refuse on pgstage.task;"
                               " create trigger refuse before insert on pgstage.task for each row execute function refuse()",
                               refusals[i].sqlstate);
        producer_exec(sql);
        EXPECT_CODE(pgstage_submit_many(producer, "p", documents, 3, NULL, NULL, &error), refusals[i].code);
        cr_expect_str_eq(error.sqlstate, refusals[i].sqlstate);
        cr_expect_str_eq(error.text, "not now", "it is one line");
        cr_expect_eq(error.document, PGSTAGE_NO_DOCUMENT, "%s", refusals[i].sqlstate);
        free(sql);
    }
}

/* A program that was compiled with a header whose structures were shorter. */
static long peak_kb(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* As many as PGSTAGE_ROWS says, in one transaction of the caller's; a release shows what they need. */
Test(client, many_in_bounded_memory, .timeout = 600) {
    enum { AT_ONCE = 10000 };
    const char *asked = getenv("PGSTAGE_ROWS");
    int rows = asked == NULL ? 2 * AT_ONCE : atoi(asked);
    struct pgstage_document *documents = make_documents(AT_ONCE);
    expect_state("begin", "");
    long before_kb = 0;
    for (int done = 0; done < rows; done += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            free((void *)(uintptr_t)documents[i].key);
            documents[i].key = mem_format("k%d", done + i);
        }
        EXPECT_CODE(pgstage_submit_many(producer, "p", documents, AT_ONCE, NULL, NULL, &error), PGSTAGE_CLIENT_OK);
        before_kb = done == 0 ? peak_kb() : before_kb;
    }
    expect_state("commit", "");
    cr_expect_eq(producer_number("select count(*) from pgstage.task"), (rows + AT_ONCE - 1) / AT_ONCE * AT_ONCE);
    printf("%d documents: %ld kB after the first %d, at most %ld kB\n", rows, before_kb, AT_ONCE, peak_kb());
#ifndef __SANITIZE_ADDRESS__
    cr_expect_lt(peak_kb() - before_kb, 2048);
#endif
    free_documents(documents, AT_ONCE);
}

Test(client, an_older_caller_has_shorter_documents) {
    struct old_document {
        const char *key, *payload;
    } documents[] = {{"a", "1"}, {"b", "2"}};
    enum pgstage_outcome outcomes[2];
    enum pgstage_client_code code =
        pgstage_client_submit(producer, "p", (const struct pgstage_document *)(const void *)documents, 2, sizeof documents[0],
                              NULL, 0, (struct pgstage_submitted *)(void *)outcomes, sizeof outcomes[0], &error);
    cr_expect_eq(code, PGSTAGE_CLIENT_OK, "%s", error.text);
    cr_expect_eq(outcomes[1], PGSTAGE_NEW);
    expect_text("select string_agg(key || payload, ',' order by key) from pgstage.task", "a1,b2");
}

/* And one whose structures are longer: what this library does not know of is left alone. */
Test(client, a_newer_caller_has_longer_documents) {
    struct newer_document {
        struct pgstage_document known;
        const char *more[4];
    } documents[] = {{.known = {.key = "a", .payload = "1"}}, {.known = {.key = "b", .payload = "2"}}};
    struct newer_submitted {
        struct pgstage_submitted known;
        int64_t more[4];
    } submitted[2];
    enum pgstage_client_code code =
        pgstage_client_submit(producer, "p", &documents[0].known, 2, sizeof documents[0], NULL, 0, &submitted[0].known,
                              sizeof submitted[0], &error);
    cr_expect_eq(code, PGSTAGE_CLIENT_OK, "%s", error.text);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(submitted[i].known.outcome, PGSTAGE_NEW);
        cr_expect_eq(submitted[i].known.version, 1);
        cr_expect_eq(submitted[i].more[0], 0);
    }
    expect_text("select string_agg(key || payload, ',' order by key) from pgstage.task", "a1,b2");
}
