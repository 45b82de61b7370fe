#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/output.h"
#include "db/sync.h"
#include "sql/statements.h"

enum { BAR_WIDTH = 30, WAITS_MS = 2000, TELL_EVERY_MS = 10000 };

struct progress {
    bool wanted, drawn, bars;
    int lines;
    int64_t start_ms, last_work_ms, last_work, last_ended;
    int64_t busy_ms, told_ms; /* when something was in this node's hands last, and when it was told for what it waits */
};

struct progress *progress_create(bool wanted) {
    struct progress *progress = mem_alloc(sizeof *progress);
    progress->bars = wanted && isatty(STDERR_FILENO) && getenv("NO_PROGRESS") == NULL;
    progress->wanted = wanted;
    progress->start_ms = progress->busy_ms = clock_now_ms(&clock_boottime);
    return progress;
}

/* Documents that have yet to pass a stage: those that stand at it or before it. */
static void draw(struct progress *progress, const struct node_report *report, int64_t awaited) {
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
    if (awaited > 0) {
        fprintf(stderr, "waiting for %" PRId64 " task%s: delayed, or in the hands of another node\n", awaited,
                text_plural(awaited));
        progress->lines++;
    }
}

/* Tasks for which the run goes on though none is in this node's hands. 0: it has work, or only just ended the last. */
static int64_t count_awaited(struct progress *progress, const struct node_report *report, int64_t now_ms) {
    int64_t open = 0;
    for (int i = 0; i < report->stage_count; i++) {
        const struct scheduler_stage_report *stage = &report->stages[i];
        if (stage->queued + stage->running > 0) {
            progress->busy_ms = now_ms;
        }
        open += !stage->elsewhere && stage->parked == NULL && report->open[i] > 0 ? report->open[i] : 0;
    }
    return now_ms - progress->busy_ms < WAITS_MS || report->scanning ? 0 : open;
}

void progress_report(void *context, const struct node_report *report) {
    struct progress *progress = context;
    int64_t ended = report->done + report->failed, work = ended, now_ms = clock_now_ms(&clock_boottime);
    for (int i = 0; i < report->stage_count; i++) {
        work += report->stages[i].runs; /* of a document that goes on elsewhere, too */
    }
    if (work != progress->last_work) {
        progress->last_work = work;
        progress->last_work_ms = now_ms;
    }
    progress->last_ended = ended;
    int64_t awaited = progress->wanted ? count_awaited(progress, report, now_ms) : 0;
    if (awaited > 0 && (progress->told_ms == 0 || now_ms - progress->told_ms >= TELL_EVERY_MS)) {
        progress->told_ms = now_ms;
        log_event(LOG_INFO, "run.waits", "tasks=%" PRId64 " for=%s", awaited, log_text("their time, or another node"));
    }
    if (progress->bars) {
        draw(progress, report, awaited);
        progress->drawn = true;
    }
}

void progress_destroy(struct progress *progress) {
    free(progress);
}

/* All documents that are failed now: those of this run, and those that failed before. */
static void print_failures(const struct progress *progress, struct db_sync *db, const char *pipeline) {
    char ran_ms[24];
    snprintf(ran_ms, sizeof ran_ms, "%" PRId64, clock_now_ms(&clock_boottime) - progress->start_ms);
    struct db_param params[] = {DB_TEXT(pipeline), DB_TEXT(ran_ms)};
    struct db_result *result = NULL;
    struct error err = ERROR_NONE;
    if (sync_run(db, NULL, sql_failed_reasons.text, 2, params, &result, &err) != STATUS_OK) {
        return;
    }
    for (int i = 0; i < db_rows(result); i++) {
        printf("  %lld %s in %s: %s  (for instance %s)\n", (long long)db_int64(result, i, 0),
               db_bool(result, i, 4) ? "failed before" : "failed", db_value(result, i, 1), text_shown(db_value(result, i, 2)),
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
    bool seen = progress->last_work_ms != 0 && progress->last_ended == ended;
    int64_t end = seen ? progress->last_work_ms : clock_now_ms(&clock_boottime);
    double seconds = (double)(end - progress->start_ms) / 1000.0;
    seconds = seconds < 0.001 ? 0.001 : seconds;
    if (ended > 0) {
        double rate = (double)ended / seconds;
        printf("%" PRId64 " document%s in %.1f s (%.*f documents/s), %" PRId64 " failed", ended, text_plural(ended), seconds,
               rate < 10 ? 1 : 0, rate, result->failed);
    } else if (result->runs > 0) {
        printf("0 documents done; %" PRId64 " run%s here", result->runs, text_plural(result->runs));
    } else if (result->stuck > 0) {
        printf("0 documents done");
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
            print_failures(progress, db, pipelines[i].def->name);
        }
        sync_close(db);
    }
    fflush(stdout);
}
