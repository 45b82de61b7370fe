/* schedules.c - the list of schedules: their keys, and what hangs on several of them or on the stages. */
#include <string.h>

#include "config/loader.h"
#include "config/scalar.h"

enum { KEY_MAX_BYTES = 1024 }; /* the database refuses longer ones */

/* `scan`, `rerun`, or a mapping with one of `submit` and `rerun`. */
void schedules_read_do(struct loader *loader, const struct config_key *key, const struct tree_node *node,
                       struct schedule_def *schedule) {
    static const char *const hint = "'do: scan', 'do: rerun', 'do: {submit: {key: KEY}}' or 'do: {rerun: {from: STAGE}}'";
    if (node->kind == TREE_MAPPING) {
        walk_mapping(loader, key->inner, node, schedule, "'do'");
        const struct tree_node *submit = tree_get(node, "submit");
        schedule->action = submit != NULL ? SCHEDULE_SUBMIT : SCHEDULE_RERUN;
        schedule->has_priority = submit != NULL && tree_get(submit, "priority") != NULL;
        if (node->count != 1) {
            mistake_add(loader->mistakes, node->count == 0 ? node->at : node->first->next->key->at, hint,
                        "a schedule does one thing");
        }
        return;
    }
    const char *text = node->kind == TREE_TEXT ? expand_environment(loader, node) : NULL;
    if (text != NULL && strcmp(text, "scan") == 0) {
        schedule->action = SCHEDULE_SCAN;
    } else if (text != NULL && strcmp(text, "rerun") == 0) {
        schedule->action = SCHEDULE_RERUN;
    } else if (node->kind == TREE_LIST || text != NULL) {
        mistake_add(loader->mistakes, node->at, hint, "'do' must be scan, rerun, or a mapping with one of submit and rerun");
    }
}

/* ---- what belongs together ---------------------------------------------------------------------------------------- */

/* Two ticks must not become due in another order than they have: the former would be dropped. gap_ms 0: not known, reported. */
static void check_jitter(struct loader *loader, const struct tree_node *node, const struct schedule_def *schedule,
                         int64_t gap_ms, const char *gap) {
    if (gap_ms > 0 && schedule->jitter_ms >= gap_ms) {
        mistake_add(loader->mistakes, tree_get(node, "jitter")->at, NULL, "'jitter' (%s) must be less than %s (%s)",
                    scalar_format_duration(loader->scratch, schedule->jitter_ms), gap,
                    scalar_format_duration(loader->scratch, gap_ms));
    }
}

/* Blanks and line ends around the entry do not count: a block scalar ends with one. */
static void check_cron(struct loader *loader, const struct tree_node *node, struct schedule_def *schedule) {
    static const char blanks[] = " \t\r\n";
    const struct tree_node *cron = tree_get(node, "cron");
    const char *text = schedule->cron_text;
    struct cron_fault fault;
    if (text == NULL) {
        return; /* reported */
    }
    size_t lead = strspn(text, blanks), length = strlen(text + lead);
    while (length > 0 && strchr(blanks, text[lead + length - 1]) != NULL) {
        length--;
    }
    schedule->cron_text = arena_copy(&loader->def->arena, text + lead, length);
    if (cron_parse(schedule->cron_text, &schedule->cron, loader->scratch, &fault)) {
        check_jitter(loader, node, schedule, cron_smallest_gap_minutes(&schedule->cron) * INT64_C(60000),
                     "the smallest gap between two ticks of 'cron'");
    } else {
        bool as_written = strcmp(text, cron->text) == 0;
        mistake_add(loader->mistakes, as_written ? tree_position_inside(loader->source, cron, lead + fault.offset) : cron->at,
                    fault.hint, "'cron': %s", fault.message);
    }
}

static void refuse_useless(struct loader *loader, const struct tree_node *node, const char *key, const char *where) {
    const struct tree_node *child = tree_get(node, key);
    if (child != NULL) {
        mistake_add(loader->mistakes, child->key->at, NULL, "'%s' has no effect %s", key, where);
    }
}

static void check_times(struct loader *loader, const struct tree_node *node, struct schedule_def *schedule,
                        const char *where) {
    const struct tree_node *every = tree_get(node, "every"), *cron = tree_get(node, "cron");
    if (every == NULL && cron == NULL) {
        mistake_add(loader->mistakes, node->at, "'every: 10m', or 'cron: \"30 2 * * *\"'",
                    "%s has neither 'every' nor 'cron'", where);
    } else if (every != NULL && cron != NULL) {
        mistake_add(loader->mistakes, cron->key->at, NULL, "%s has 'every' and 'cron': it must be one of them", where);
    } else if (cron != NULL) {
        check_cron(loader, node, schedule);
    } else {
        refuse_useless(loader, node, "timezone", "with 'every': a period knows no zones");
        check_jitter(loader, node, schedule, schedule->every_ms, "'every'");
    }
}

/* With the longest instant for each {tick}: a tick has microseconds when it is fired by hand. */
static void check_key(struct loader *loader, const struct tree_node *submit, const char *key) {
    static const char tick[] = "{tick}", longest[] = "2026-12-01T03:00:00.000001Z";
    size_t length = strlen(key);
    for (const char *at = strstr(key, tick); at != NULL; at = strstr(at + sizeof tick - 1, tick)) {
        length += sizeof longest - sizeof tick;
    }
    if (length > KEY_MAX_BYTES) {
        mistake_add(loader->mistakes, tree_get(submit, "key")->at, NULL,
                    "'key' may have %zu bytes with each {tick} replaced; a key has at most %d", length, KEY_MAX_BYTES);
    }
}

static void check_action(struct loader *loader, const struct tree_node *node, const struct schedule_def *schedule) {
    const struct tree_node *action = tree_get(node, "do");
    if (action == NULL || action->kind == TREE_BROKEN) {
        return; /* reported */
    }
    if (schedule->action != SCHEDULE_SUBMIT) {
        refuse_useless(loader, node, "timeout", "without 'submit'");
    }
    if (schedule->action == SCHEDULE_SCAN) {
        refuse_useless(loader, node, "overlap", "with 'do: scan': scans of a source never overlap");
    }
    if (schedule->action == SCHEDULE_SCAN && !loader->def->source.present && action->kind == TREE_TEXT) {
        mistake_add(loader->mistakes, action->at, NULL, "the pipeline has no 'source' to scan");
    }
    if (schedule->action == SCHEDULE_SUBMIT && schedule->key != NULL) {
        check_key(loader, tree_get(action, "submit"), schedule->key);
    }
    if (schedule->from != NULL && pipeline_find_stage(loader->def, schedule->from) < 0) {
        mistake_add(loader->mistakes, tree_get(tree_get(action, "rerun"), "from")->at, NULL,
                    "the pipeline has no stage %s", mistake_quote(loader->scratch, schedule->from));
    }
}

/* ---- the list ----------------------------------------------------------------------------------------------------- */

static void check_unique(struct loader *loader, const struct tree_node *node, const struct schedule_def *schedules,
                         int number) {
    for (int i = 0; i < number; i++) {
        if (schedules[i].name != NULL && schedules[number].name != NULL &&
            strcmp(schedules[i].name, schedules[number].name) == 0) {
            mistake_add(loader->mistakes, tree_get(node, "name")->at, NULL, "a second schedule is named %s",
                        mistake_quote(loader->scratch, schedules[number].name));
            return;
        }
    }
}

static void read_schedule(struct loader *loader, const struct tree_node *node, int number, struct schedule_def *schedule) {
    const struct tree_node *name = tree_get(node, "name");
    const char *where = name != NULL && name->kind == TREE_TEXT && name->length > 0
                            ? arena_format(loader->scratch, "schedule %s", mistake_quote(loader->scratch, name->text))
                            : arena_format(loader->scratch, "schedule %d", number);
    int before = loader->mistakes->total;
    walk_fallbacks(loader, LEVEL_SCHEDULE | LEVEL_SUBMIT, schedule);
    walk_mapping(loader, LEVEL_SCHEDULE, node, schedule, where);
    if (loader->mistakes->total == before) { /* else one mistake would be reported as two */
        check_times(loader, node, schedule, where);
        check_action(loader, node, schedule);
    }
}

void schedules_read(struct loader *loader, const struct tree_node *list) {
    if (list->count == 0) {
        mistake_add(loader->mistakes, list->at, NULL, "'schedule' must have at least one schedule");
        return;
    }
    struct schedule_def *schedules = arena_alloc(&loader->def->arena, CONFIG_SCHEDULES_MAX * sizeof *schedules);
    int count = 0;
    for (const struct tree_node *node = list->first; node != NULL; node = node->next) {
        if (count == CONFIG_SCHEDULES_MAX) {
            mistake_add(loader->mistakes, node->at, NULL, "a pipeline has at most %d schedules", CONFIG_SCHEDULES_MAX);
            break;
        }
        if (node->kind == TREE_MAPPING) {
            read_schedule(loader, node, count + 1, &schedules[count]);
            check_unique(loader, node, schedules, count);
            count++;
        } else if (node->kind != TREE_BROKEN) {
            mistake_add(loader->mistakes, node->at, "'- name: NAME' begins a schedule",
                        "a schedule must be a mapping of keys");
        }
    }
    loader->def->schedules = schedules;
    loader->def->schedule_count = count;
}
