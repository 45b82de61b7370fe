/* suggest.c - a small edit distance over the whole word first, then over its parts (max_atempts),
 * then a larger one, then a shared begin. */
#include "config/suggest.h"

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"

enum { WORD_MAX = 63 };

static char folded(char byte) {
    if (byte >= 'A' && byte <= 'Z') {
        return (char)(byte + 'a' - 'A');
    }
    return byte;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

int suggest_distance(const char *left, const char *right) {
    size_t left_length = strlen(left), right_length = strlen(right);
    if (left_length > WORD_MAX || right_length > WORD_MAX) {
        return (int)(left_length > right_length ? left_length : right_length);
    }
    /* The row of the previous but one letter, the previous and this letter of `left`. */
    int rows[3][WORD_MAX + 1];
    int *older = rows[0], *old = rows[1], *now = rows[2];
    for (size_t j = 0; j <= right_length; j++) {
        old[j] = (int)j;
        older[j] = 0;
    }
    for (size_t i = 1; i <= left_length; i++) {
        now[0] = (int)i;
        for (size_t j = 1; j <= right_length; j++) {
            int replaced = old[j - 1] + (folded(left[i - 1]) == right[j - 1] ? 0 : 1);
            now[j] = least(replaced, least(old[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && folded(left[i - 1]) == right[j - 2] &&
                folded(left[i - 2]) == right[j - 1]) {
                now[j] = least(now[j], older[j - 2] + 1);
            }
        }
        int *unused = older;
        older = old;
        old = now;
        now = unused;
    }
    return old[right_length];
}

static const struct config_key *nearest(unsigned levels, const char *word, int limit) {
    const struct config_key *found = NULL;
    for (int i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        int distance = (key->levels & levels) != 0 ? suggest_distance(word, key->name) : limit + 1;
        if (distance <= limit) {
            found = key;
            limit = distance - 1;
        }
    }
    return found;
}

/* The longest part between '_' or '-' that is nearly a key. */
static const struct config_key *nearest_to_part(unsigned levels, const char *word) {
    const struct config_key *found = NULL;
    size_t found_length = 0;
    for (const char *part = word; *part != '\0';) {
        char copy[WORD_MAX + 1];
        size_t length = strcspn(part, "_-");
        if (length > found_length && length <= WORD_MAX) {
            memcpy(copy, part, length);
            copy[length] = '\0';
            const struct config_key *key = nearest(levels, copy, (int)length / 4);
            if (key != NULL) {
                found = key;
                found_length = length;
            }
        }
        part += length;
        part += strspn(part, "_-");
    }
    return found;
}

/* mem, maximum: one is the other's begin. */
static const struct config_key *nearest_by_begin(unsigned levels, const char *word) {
    for (int i = 0; i < config_key_count; i++) {
        size_t length = strlen(word), key_length = strlen(config_keys[i].name);
        size_t shared = length < key_length ? length : key_length;
        if ((config_keys[i].levels & levels) != 0 && shared >= 3 &&
            strncmp(word, config_keys[i].name, shared) == 0) {
            return &config_keys[i];
        }
    }
    return NULL;
}

/* A slip of the pen, or of the memory. */
static const struct config_key *close_key(unsigned levels, const char *word) {
    const struct config_key *key = nearest(levels, word, (int)strlen(word) / 4);
    key = key != NULL ? key : nearest_to_part(levels, word);
    key = key != NULL ? key : nearest(levels, word, (int)strlen(word) / 3);
    return key != NULL ? key : nearest_by_begin(levels, word);
}

static const struct {
    unsigned levels;
    const char *place;
} places[] = {
    {LEVEL_PIPELINE, "at the top level of the file"},
    {LEVEL_SOURCE, "in 'source'"},
    {LEVEL_FILES, "in 'files' of 'source'"},
    {LEVEL_STAGE, "in a stage"},
    {LEVEL_STAGE | LEVEL_DEFAULTS, "in a stage or in 'defaults'"},
    {LEVEL_RETRY, "in 'retry'"},
    {LEVEL_LIMITS, "in 'limits'"},
    {LEVEL_RETENTION, "in 'retention'"},
    {LEVEL_BATCH, "in 'batch' of a stage"},
    {LEVEL_RECYCLE, "in 'recycle'"},
    {LEVEL_SCHEDULE, "in a schedule"},
    {LEVEL_DO, "in 'do' of a schedule"},
    {LEVEL_SUBMIT, "in 'submit' of a schedule"},
    {LEVEL_RERUN, "in 'rerun' of a schedule"},
};

static const char *place_of(const struct config_key *key) {
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (places[i].levels == key->levels) {
            return places[i].place;
        }
    }
    return "elsewhere";
}

const struct config_key *suggest_key(enum config_level level, const char *word) {
    if (strlen(word) > WORD_MAX || config_key_find(LEVEL_ANY, word) != NULL) {
        return NULL;
    }
    const struct config_key *key = close_key(level, word);
    if (key == NULL && close_key(LEVEL_ANY, word) == NULL) {
        key = nearest(level, word, (int)strlen(word) / 2);
    }
    return key;
}

static const char *list_keys(struct arena *arena, enum config_level level) {
    struct buf out;
    buf_init(&out, SIZE_MAX);
    buf_append_string(&out, "the keys here are ");
    bool first = true;
    for (int i = 0; i < config_key_count; i++) {
        if ((config_keys[i].levels & level) != 0) {
            buf_append_format(&out, "%s'%s'", first ? "" : ", ", config_keys[i].name);
            first = false;
        }
    }
    const char *text = arena_copy(arena, out.data, out.length);
    buf_finish(&out);
    return text;
}

const char *suggest_hint(struct arena *arena, enum config_level level, const char *word) {
    const struct config_key *key = suggest_key(level, word);
    if (key != NULL) {
        return arena_format(arena, "did you mean '%s'?", key->name);
    }
    key = strlen(word) > WORD_MAX ? NULL : close_key(LEVEL_ANY, word);
    if (key != NULL) {
        return arena_format(arena, "'%s' belongs %s", key->name, place_of(key));
    }
    return list_keys(arena, level);
}
