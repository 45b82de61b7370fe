/* world.h - a pipeline in a database, two scripted sessions, and the statements of sql/, any of
 * which may be mutated.
 *
 * A scenario is a function over a world that says whether what it expects held. It runs as a test
 * with the statements as they are, and again with a guard removed, where it must say no. So nothing
 * here ends the test: the first thing that is not as expected, an SQL error included, is kept in
 * `why`.
 */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "db/sync.h"
#include "sql/statements.h"

enum { STAGE_A, STAGE_B, STAGE_C, STAGE_COUNT };
enum { NODE_ONE = 11, NODE_TWO = 12, NODE_LAST = 13 }; /* NODE_LAST: drives tasks to their rest */

/* Replaces `from` by `to` in a statement ("complete") or in a function ("pgstage.leave"); `also`
 * has its own pair. */
struct mutation {
    const char *where, *from, *to;
    const char *also_from, *also_to; /* NULL: none */
};

struct world {
    char *url;
    struct db_sync *one, *two, *eye; /* two may hold locks; eye never is in a transaction */
    int pipeline, revision;
    int stages[STAGE_COUNT];
    const struct mutation *mutation;
    struct db_result *results[4096]; /* freed at the next reset */
    int result_count;
    int64_t last_claim;
    int last_key;
    char why[600]; /* "": all is as expected */
};

typedef bool (*scenario)(struct world *world);

struct world *world_open(void);
void world_close(struct world *world);
/* Empty tables, nodes one, two and last alive, pipeline "p" with revision 1: a, b, c. */
void world_reset(struct world *world);
void world_forget_results(struct world *world); /* long scenarios do now and then */
/* NULL takes the last one back. The test fails when the text to be replaced is not there exactly
 * once. */
void world_mutate(struct world *world, const struct mutation *mutation);

/* Keeps the first reason. Returns `held`. */
bool world_expect(struct world *world, bool held, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define EXPECT(world, condition, ...)                                                              \
    do {                                                                                           \
        if (!world_expect((world), (condition), __VA_ARGS__)) {                                    \
            return false;                                                                          \
        }                                                                                          \
    } while (0)
/* Counts and batches are right, and nothing failed before: what a scenario returns. */
bool world_is_sound(struct world *world);

/* ---- statements; NULL parameters are SQL NULL; NULL is returned when it fails ---- */
const struct db_result *world_call(struct world *world, struct db_sync *session,
                                   const struct sql_statement *sql, int count, ...);
const struct db_result *world_call_with(struct world *world, struct db_sync *session,
                                        const struct sql_statement *sql, int count,
                                        const struct db_param *params);
const struct db_result *world_sql(struct world *world, struct db_sync *session, const char *format,
                                  ...) __attribute__((format(printf, 3, 4)));
int64_t world_int(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *world_text(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void world_script(struct world *world, struct db_sync *session, const char *sql);
/* Fails with this SQLSTATE: no reason against the scenario. */
bool world_fails(struct world *world, struct db_sync *session, const char *sqlstate,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Starts on session one, in a thread; returns when it waits for a lock. world_join gives its
 * result. */
void world_begin_call(struct world *world, const struct sql_statement *sql, int count, ...);
const struct db_result *world_join(struct world *world);
/* Stops the statement between its snapshot and its first lock, runs `meanwhile`, and lets it go on.
 */
const struct db_result *world_race(struct world *world, const struct sql_statement *sql,
                                   void (*meanwhile)(struct world *world, void *context),
                                   void *context, int count, ...);

const struct db_result *world_race_with(struct world *world, const struct sql_statement *sql,
                                        void (*meanwhile)(struct world *world, void *context),
                                        void *context, int count, const struct db_param *params);

/* ---- the protocol in short ---- */

int64_t world_submit(struct world *world, const char *key); /* with the next stamp; the task's id */
/* The newest version of a task that exists. */
void world_resubmit(struct world *world, int64_t task);
void world_cancel(struct world *world, int64_t task);
int64_t world_new_claim(struct world *world);
/* Claims under a new claim; returns it. *count is how many rows came. */
int64_t world_claim(struct world *world, int64_t node, int stage, int at_most, int *count);
/* The same by claim_some.sql. *count is -1 when another one is claiming there. */
int64_t world_claim_some(struct world *world, struct db_sync *session, int64_t node, int stage,
                         int at_most, bool fair, int *count);
/* The input that the last claimed row of a claim was given: claims the stage anew for node one. "" for none. */
const char *world_claim_input(struct world *world, int stage, int before);
void world_end_lease(struct world *world, int64_t node); /* its time is over, and it is ended */
const struct db_result *world_rescue(struct world *world);
const struct db_result *world_release(struct world *world, int64_t node, int64_t known_task,
                                      int64_t known_claim);
void world_revise(struct world *world,
                  const char *stages); /* "{a,c}": a new current revision; makes missing stages */

/* One chain of complete.sql. */
struct move {
    int64_t task, claim;
    int step, count, first; /* first: stage (0 ..) */
    const char *ending;
    int attempts, crashes, rescues;
    int64_t delay_ms;
    const char *kind, *reason;
    const char *output; /* JSON of every transition; NULL: none */
    int route;          /* stage (0 ..) + 1 of the ending route; 0: none; above the last: one that is not there */
    int revision;       /* 0: the one of the world at its reset */
    bool has_progress;  /* the store may have some of the task */
};

struct verdict {
    char answer[16], status[16]; /* "" when the statement failed */
    int step, stage;             /* stage 0 ..; -1: none of ours */
};

struct verdict world_complete(struct world *world, struct db_sync *session,
                              const struct move *move);
struct verdict world_race_complete(struct world *world, const struct move *move,
                                   void (*meanwhile)(struct world *world, void *context),
                                   void *context);

struct row {
    char status[16];
    int stage; /* 0 .. */
    int64_t version, claimed_version, done_version, claim, node;
    int step, attempt, crashes, rescues, superseded, steps;
    int came_from; /* stage (0 ..) of what holds for its version and place; -1: not known */
    bool has_wish, has_error, exists;
};
struct row world_row(struct world *world, int64_t task);

/* Runs what is left to its end, as a fault-free node would: claim, one stage, complete; delays are
 * over at once. */
void world_rest(struct world *world);

#endif
