#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli/output.h"
#include "db/sync.h"
#include "sql/statements.h"

enum { BAR_WIDTH = 30 };

struct progress {
    bool drawn, bars;
    int lines;
    int64_t start_ms, last_work_ms, last_total;
};

struct progress *progress_create(bool wanted) {
    struct progress *progress = mem_alloc(sizeof *progress);
    progress->bars = wanted && isatty(STDERR_FILENO) && getenv("NO_PROGRESS") == NULL;
    progress->start_ms = clock_now_ms(&clock_boottime);
    return progress;
}

/* Documents that have yet to pass a stage: those that stand at it or before it. */
static void draw(struct progress *progress, const struct node_report *report) {
    if (progress->lines > 0) {
        fprintf(stderr, "\033[%dA\033[J", progress->lines); /* a reload may have changed how many there are */
    }
    int64_t before = 0;
    for (int i = 0; i < report->stage_count; i++) {
        const struct scheduler_stage_report *stage = &report->stages[i];
        if (i == 0 || strcmp(stage->pipeline, report->stages[i - 1].pipeline) != 0) {
            before = 0;
        }
        before += report->open[i] > 0 ? report->open[i] : 0;
        int64_t passed = stage->runs - stage->failed, all = passed + before;
        int filled = all > 0 ? (int)(passed * BAR_WIDTH / all) : 0;
        char bar[BAR_WIDTH * 3 + 1] = "";
        for (int k = 0; k < BAR_WIDTH; k++) {
            strcat(bar, k < filled ? "█" : "░");
        }
        fprintf(stderr, "\033[2K%-12.12s %s %lld/%lld", stage->stage, bar, (long long)passed, (long long)all);
        if (stage->failed > 0) {
            fprintf(stderr, "  %lld failed", (long long)stage->failed);
        }
        if (stage->parked != NULL) {
            fprintf(stderr, "  parked: %.60s", stage->parked);
        }
        fputc('\n', stderr);
    }
    progress->lines = report->stage_count;
}

void progress_report(void *context, const struct node_report *report) {
    struct progress *progress = context;
    int64_t total = report->done + report->failed;
    if (total != progress->last_total) {
        progress->last_total = total;
        progress->last_work_ms = clock_now_ms(&clock_boottime);
    }
    if (progress->bars) {
        draw(progress, report);
        progress->drawn = true;
    }
}

void progress_destroy(struct progress *progress) {
    free(progress);
}

/* All documents that are failed now; `before`: none of them failed in this run. */
static void print_failures(struct db_sync *db, const char *pipeline, bool before) {
    struct db_param params[] = {DB_TEXT(pipeline)};
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    if (sync_run(db, NULL, sql_failed_reasons.text, 1, params, &result, &err) != STATUS_OK) {
        return;
    }
    for (int i = 0; i < db_rows(result); i++) {
        printf("  %lld %s in %s: %s  (for instance %s)\n", (long long)db_int64(result, i, 0),
               before ? "failed before" : "failed", db_value(result, i, 1), text_shown(db_value(result, i, 2)),
               text_shown(db_value(result, i, 3)));
    }
    if (db_rows(result) > 0) {
        printf("  pgstage tasks %s --status failed lists them, pgstage retry %s --status failed runs them again\n",
               pipeline, pipeline);
    }
    sync_result_free(result);
}

static void print_counts(const struct progress *progress, const struct node_result *result) {
    int64_t ended = result->done + result->failed;
    int64_t end = progress->last_work_ms != 0 ? progress->last_work_ms : clock_now_ms(&clock_boottime);
    double seconds = (double)(end - progress->start_ms) / 1000.0;
    seconds = seconds < 0.001 ? 0.001 : seconds;
    if (ended > 0) {
        double rate = (double)ended / seconds;
        printf("%" PRId64 " document%s in %.1f s (%.*f documents/s), %" PRId64 " failed", ended, text_plural(ended), seconds,
               rate < 10 ? 1 : 0, rate, result->failed);
    } else if (result->runs > 0) {
        printf("0 documents done; %" PRId64 " run%s here", result->runs, text_plural(result->runs));
    } else {
        printf("0 documents: nothing to do%s", result->elsewhere > 0 ? " here" : "");
    }
    if (result->elsewhere > 0) {
        printf("; %" PRId64 " task%s wait%s at stages that this node does not serve", result->elsewhere,
               text_plural(result->elsewhere), result->elsewhere == 1 ? "s" : "");
    }
    putchar('\n');
}

void progress_summary(struct progress *progress, const struct node_result *result, const char *url, int pipeline_count,
                      const struct node_pipeline *pipelines) {
    print_counts(progress, result);
    struct db_sync *db = NULL;
    struct error err = ERROR_NONE;
    if (sync_open(url, "summary", &db, &err) == STATUS_OK) {
        for (int i = 0; i < pipeline_count; i++) {
            print_failures(db, pipelines[i].def->name, result->failed == 0);
        }
        sync_close(db);
    }
    fflush(stdout);
}
