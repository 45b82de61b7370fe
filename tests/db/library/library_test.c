/* The pipeline `library` against a database: its tables, the statements of its `index` stage as the
 * loader reads them, and its search. */
#include <criterion/criterion.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/pipeline.h"
#include "support/pg.h"

static char *url;
static PGconn *db;
static struct pipeline_def *def;

static char *read_file(const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/pipelines/library/%s", TEST_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    char *text = calloc(1, 65536);
    size_t length = fread(text, 1, 65535, file);
    cr_assert_lt(length, 65535);
    fclose(file);
    return text;
}

static void run_schema(void) {
    char *schema = read_file("schema.sql");
    pg_exec(url, schema);
    free(schema);
}

static void open_all(void) {
    url = pg_new_database();
    run_schema();
    db = PQconnectdb(url);
    cr_assert_eq(PQstatus(db), CONNECTION_OK);
    struct config_report report;
    struct error err = ERROR_NONE;
    cr_assert_eq(
        pipeline_load(TEST_SOURCE_DIR "/pipelines/library/library.yaml", &def, &report, &err),
        STATUS_OK, "%s%s", err.text, report.text.data);
    config_report_finish(&report);
}

static void close_all(void) {
    pipeline_free(def);
    PQfinish(db);
    free(url);
}

TestSuite(library_sql, .init = open_all, .fini = close_all, .timeout = 60);

static const struct stage_def *stage(const char *name) {
    for (int i = 0; i < def->stage_count; i++) {
        if (strcmp(def->stages[i].name, name) == 0) {
            return &def->stages[i];
        }
    }
    cr_assert_fail("no such stage");
    return NULL;
}

static void index_document(const char *key, const char *version, const char *input) {
    const struct stage_def *index = stage("index");
    for (int i = 0; i < index->statement_count; i++) {
        const struct stage_statement *statement = &index->statements[i];
        const char *values[32];
        cr_assert_leq(statement->param_count, 32);
        for (int p = 0; p < statement->param_count; p++) {
            values[p] = statement->params[p] == SQL_KEY       ? key
                        : statement->params[p] == SQL_VERSION ? version
                        : statement->params[p] == SQL_INPUT   ? input
                                                              : "null";
        }
        PGresult *result =
            PQexecParams(db, statement->text, statement->param_count, NULL, values, NULL, NULL, 0);
        cr_assert_eq(PQresultStatus(result), PGRES_COMMAND_OK, "%s", PQerrorMessage(db));
        PQclear(result);
    }
}

static void expect(const char *sql, const char *expected) {
    char *text = pg_text(url, sql);
    cr_expect_str_eq(text, expected, "%s -> '%s'", sql, text);
    free(text);
}

Test(library_sql, the_file_has_the_stages_that_its_handlers_know) {
    cr_assert_eq(def->stage_count, 3);
    cr_assert_str_eq(stage("extract")->handler_file, "library.so");
    cr_assert_str_eq(stage("extract")->handler_name, "extract");
    cr_assert_str_eq(stage("chunk")->handler_name, "chunk");
    cr_assert_eq(stage("index")->kind, STAGE_SQL);
}

Test(library_sql, the_schema_can_be_run_again) {
    index_document("a", "1",
                   "{\"title\": \"T\", \"format\": \"text\", \"bytes\": 1, \"chunks\": []}");
    run_schema();
    expect("select count(*) from library.document", "1");
}

Test(library_sql, a_new_version_replaces_the_old_one_whole) {
    index_document(
        "a'b", "1",
        "{\"title\": \"Old\", \"pages\": 3, \"format\": \"pdf\", \"bytes\": 10, \"note\": \"n\", "
        "\"chunks\": "
        "[{\"ordinal\": 0, \"text\": \"zero elephants\"}, {\"ordinal\": 1, \"text\": \"one\"}]}");
    expect("select string_agg(ordinal || text, ',' order by ordinal) from library.chunk",
           "0zero elephants,1one");
    expect("select concat_ws('|', key, title, pages, format, bytes, note, version) from "
           "library.document",
           "a'b|Old|3|pdf|10|n|1");
    index_document(
        "a'b", "2",
        "{\"title\": \"New\", \"pages\": null, \"format\": \"text\", \"bytes\": 4, \"chunks\": "
        "[{\"ordinal\": 0, \"text\": \"giraffes\"}]}");
    expect("select string_agg(ordinal || text, ',' order by ordinal) from library.chunk",
           "0giraffes");
    expect("select concat_ws('|', key, title, pages, format, bytes, note, version) from "
           "library.document",
           "a'b|New|text|4|2");
    expect("select count(*) from library.search('elephants')", "0");
    expect("select key from library.search('giraffes')", "a'b");
}

Test(library_sql, a_document_without_text_is_found_by_its_title) {
    index_document("scan.pdf", "1",
                   "{\"title\": \"Deed of 1911\", \"pages\": 2, \"format\": \"pdf\", \"bytes\": 9, "
                   "\"chunks\": []}");
    expect("select key || pages from library.search('deed')", "scan.pdf2");
}

static void index_two(void) {
    index_document("about.html", "1",
                   "{\"title\": \"Keeping bees\", \"format\": \"html\", \"bytes\": 1, \"chunks\": "
                   "[{\"ordinal\": 0, \"text\": "
                   "\"First things first.\"}, {\"ordinal\": 1, \"text\": \"Bees like clover;\\nso "
                   "do their keepers.\"}]}");
    index_document("mentions.html", "1",
                   "{\"title\": \"Other animals\", \"format\": \"html\", \"bytes\": 1, \"chunks\": "
                   "[{\"ordinal\": 0, \"text\": "
                   "\"Keeping bees, keeping bees and keeping bees is not easy with clover.\"}]}");
}

Test(library_sql, search_ranks_what_a_document_is_about_first) {
    index_two();
    expect("select string_agg(key, ',' order by rank desc) from library.search('keeping bees')",
           "about.html,mentions.html");
    expect("select count(*) from library.search('keeping bees', 1)", "1");
}

Test(library_sql, search_gives_one_row_a_document_and_marks_the_words) {
    index_two();
    expect("select count(*) from library.search('bee')", "2");
    expect("select snippet from library.search('clover keeper') where key = 'about.html'",
           "Bees like «clover»; so do their «keepers»");
}

Test(library_sql, search_takes_whatever_people_type) {
    index_two();
    expect("select string_agg(key, ',') from library.search('clover -easy')", "about.html");
    expect("select string_agg(key, ',') from library.search('\"like clover\"')", "about.html");
    expect("select count(*) from library.search('clover or nonsense')", "2");
    static const char *const odd[] = {"",           "''",  "\"", "a & | ! ( :*", "\\",
                                      "it''s \\''", "the", "-",  "<->"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        char sql[200];
        snprintf(sql, sizeof sql, "select count(*) >= 0 from library.search('%s')", odd[i]);
        expect(sql, "t");
    }
}
