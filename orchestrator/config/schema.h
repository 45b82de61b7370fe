/* schema.h - the one table of keys: the loader, the JSON Schema and the hints are made from it.
 *
 * Used by walk.c, suggest.c and json_schema.c. Thread rule: constant.
 */
#ifndef CONFIG_SCHEMA_H
#define CONFIG_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a key may stand; bits, since some keys have several places. */
enum config_level {
    LEVEL_PIPELINE = 1,
    LEVEL_SOURCE = 2,
    LEVEL_FILES = 4,
    LEVEL_DEFAULTS = 8,
    LEVEL_STAGE = 16,
    LEVEL_RETRY = 32,
    LEVEL_LIMITS = 64,
    LEVEL_RETENTION = 128,
    LEVEL_SCHEDULE = 256,
    LEVEL_DO = 512,
    LEVEL_SUBMIT = 1024,
    LEVEL_RERUN = 2048,
    LEVEL_BATCH = 4096,
    LEVEL_RECYCLE = 8192,
    LEVEL_ANY = 16383,
};

/* What is written into `offset` of the level's struct is said behind each. */
enum config_type {
    TYPE_NAME,     /* const char * */
    TYPE_ROLE,     /* const char * */
    TYPE_PATH,     /* const char *, absolute */
    TYPE_INTEGER,  /* int or int64_t, by `size` */
    TYPE_DURATION, /* int64_t, ms */
    TYPE_SECONDS,  /* int64_t, s; written as a duration */
    TYPE_SIZE,     /* int64_t, bytes */
    TYPE_PERCENT,  /* int */
    TYPE_BOOLEAN,  /* bool */
    TYPE_BACKOFF,  /* enum backoff_kind */
    TYPE_TEXTS,    /* const char *const *, NULL-terminated */
    TYPE_LABELS,   /* the same, each a label */
    TYPE_NAMES,    /* the same, each the name of a stage */
    TYPE_VARIABLES, /* the same, each NAME or NAME=VALUE */
    TYPE_ARGUMENTS, /* the same; a program and its arguments, always a list */
    TYPE_HANDLER,  /* handler_file and handler_name of a stage */
    TYPE_SQL,      /* statements and statement_count of a stage */
    TYPE_JSON,     /* const char *, JSON text of a mapping */
    TYPE_TEXT,     /* const char *, 1 to `high` bytes */
    TYPE_WORD,     /* const char *, one of `words` */
    TYPE_DO,       /* action of a schedule: a word, or a mapping of level `inner` */
    TYPE_SCHEDULES, /* a list of mappings of level `inner` */
    TYPE_MAPPING,  /* keys of level `inner` */
    TYPE_STAGES,   /* a list of mappings of level `inner` */
};

/* Bits. */
enum config_use {
    USE_ANY = 0,
    USE_HANDLER = 1,
    USE_COMMAND = 2,
    USE_PROGRAM = 4,
    USE_SQL = 8,
    USE_PROCESS = USE_HANDLER | USE_COMMAND | USE_PROGRAM,
};

struct config_key {
    const char *name;
    unsigned levels; /* bits of enum config_level */
    enum config_type type;
    enum config_level inner; /* TYPE_MAPPING, TYPE_STAGES, TYPE_SCHEDULES, TYPE_DO */
    size_t offset, size;     /* in struct pipeline_def (PIPELINE), source_def (SOURCE, FILES),
                                retention_def (RETENTION), schedule_def (SCHEDULE, DO, SUBMIT,
                                RERUN), stage_def (all others) */
    int64_t low, high;       /* in what is stored */
    bool required, none_allowed;
    unsigned only; /* bits of enum config_use: kinds of stage that have a use for it; USE_ANY: all */
    const char *const *words; /* TYPE_WORD; NULL-terminated */
    const char *fallback; /* as it would be written; NULL: none */
    const char *description;
};

enum { CONFIG_KEYS_MAX = 128 };

/* Rows are in the order in which the schema lists them. */
extern const struct config_key config_keys[];
extern const int config_key_count;

/* NULL when the level has no such key. */
const struct config_key *config_key_find(enum config_level level, const char *name);

/* One of those that say what a stage is: exactly one of them must stand in it. */
bool config_key_is_kind(const struct config_key *key);

/* The words of TYPE_BACKOFF, indexed by enum backoff_kind. */
extern const char *const config_backoff_names[3];

#endif
