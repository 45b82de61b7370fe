/* glob.c - see glob.h. Names are bytes: a byte that is not UTF-8 counts as one character that only
 * itself matches. */
#include "source/glob.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

/* Reads one character and moves on. A stray byte becomes a number above every code point. Not at
 * the end. */
static uint32_t next_char(const char **at) {
    const unsigned char *bytes = (const unsigned char *)*at;
    size_t taken = utf8_sequence(*at, strnlen(*at, 4));
    *at += taken == 0 ? 1 : taken;
    switch (taken) {
    case 1:
        return bytes[0];
    case 2:
        return (bytes[0] & 0x1FU) << 6 | (bytes[1] & 0x3FU);
    case 3:
        return (bytes[0] & 0x0FU) << 12 | (bytes[1] & 0x3FU) << 6 | (bytes[2] & 0x3FU);
    case 4:
        return (bytes[0] & 0x07U) << 18 | (bytes[1] & 0x3FU) << 12 | (bytes[2] & 0x3FU) << 6 |
               (bytes[3] & 0x3FU);
    default:
        return 0x110000U + bytes[0];
    }
}

static uint32_t next_class_char(const char **at) {
    if ((*at)[0] == '\\' && (*at)[1] != '\0') {
        *at += 1;
    }
    return next_char(at);
}

/* `class` stands behind the '['. Returns what follows the ']', or NULL when there is none: then '['
 * is a plain character. A ']' that comes first belongs to the class. */
static const char *match_class(const char *class, uint32_t character, bool *matched) {
    bool negated = *class == '!' || *class == '^';
    class += negated ? 1 : 0;
    bool found = false;
    for (bool first = true; first || *class != ']'; first = false) {
        if (*class == '\0') {
            return NULL;
        }
        uint32_t low = next_class_char(&class);
        uint32_t high = low;
        if (class[0] == '-' && class[1] != ']' && class[1] != '\0') {
            class += 1;
            high = next_class_char(&class);
        }
        found = found || (low <= character && character <= high);
    }
    *matched = found != negated;
    return class + 1;
}

/* Matches one character of the name against one item of the part, which is not '*'; NULL when they
 * differ. */
static const char *match_item(const char *part, uint32_t character) {
    if (*part == '\0') {
        return NULL;
    }
    if (*part == '?') {
        return part + 1;
    }
    if (*part == '[') {
        bool matched = false;
        const char *after = match_class(part + 1, character, &matched);
        if (after != NULL) {
            return matched ? after : NULL;
        }
    }
    return next_class_char(&part) == character ? part : NULL;
}

/* The last '*' is the only place ever returned to: an earlier one could only give what the last one
 * can give as well. */
bool glob_part_matches(const char *part, const char *name) {
    if (name[0] == '.' && part[0] != '.' && !(part[0] == '\\' && part[1] == '.')) {
        return false;
    }
    const char *star = NULL, *resume = NULL;
    while (*name != '\0') {
        if (*part == '*') {
            star = ++part;
            resume = name;
            continue;
        }
        const char *here = name;
        const char *after = match_item(part, next_char(&here));
        if (after != NULL) {
            part = after;
            name = here;
        } else if (star != NULL) {
            next_char(&resume);
            part = star;
            name = resume;
        } else {
            return false;
        }
    }
    while (*part == '*') {
        part++;
    }
    return *part == '\0';
}

static bool has_name(const char *part) {
    return part[strspn(part, "*?.")] != '\0';
}

static enum status add_part(struct glob *glob, const char *part, struct error *err) {
    if (glob->part_count == GLOB_PARTS_MAX) {
        return error_set(err, STATUS_LIMIT, "a pattern has more than %d parts", GLOB_PARTS_MAX);
    }
    bool spans = strcmp(part, "**") == 0;
    /* Two in a row mean the same as one. */
    if (spans && glob->part_count > 0 && glob->spans[glob->part_count - 1]) {
        return STATUS_OK;
    }
    glob->parts[glob->part_count] = part;
    glob->spans[glob->part_count] = spans;
    glob->part_count++;
    return STATUS_OK;
}

/* "a//b" and "a/./b" are "a/b". */
static enum status add_parts(struct glob *glob, struct error *err) {
    bool empty = true;
    char *rest = glob->text;
    while (rest != NULL) {
        const char *part = strsep(&rest, "/");
        if (strcmp(part, "..") == 0) {
            return error_set(err, STATUS_INVALID, "a pattern cannot leave the folder by '..'");
        }
        if (part[0] == '\0' || strcmp(part, ".") == 0) {
            continue;
        }
        empty = false;
        enum status status = add_part(glob, part, err);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return empty ? error_set(err, STATUS_INVALID, "a pattern is empty") : STATUS_OK;
}

enum status glob_parse(struct glob *glob, const char *pattern, struct error *err) {
    *glob = (struct glob){.text = mem_copy_string(pattern)};
    enum status status = STATUS_OK;
    if (strchr(pattern, '/') == NULL) {
        status = add_part(glob, "**", err);
    }
    if (status == STATUS_OK) {
        status = add_parts(glob, err);
    }
    if (status == STATUS_OK && glob->spans[glob->part_count - 1]) {
        status = add_part(glob, "*", err);
    }
    if (status != STATUS_OK) {
        glob_finish(glob);
        return status;
    }
    glob->names = has_name(glob->parts[glob->part_count - 1]);
    return STATUS_OK;
}

void glob_finish(struct glob *glob) {
    free(glob->text);
    *glob = (struct glob){0};
}

/* ** may stand for nothing: whoever stands before it stands behind it as well. */
static glob_states with_empty_spans(const struct glob *glob, glob_states states) {
    for (int i = 0; i < glob->part_count; i++) {
        if (glob->spans[i] && (states >> i & 1) != 0) {
            states |= (glob_states)1 << (i + 1);
        }
    }
    return states;
}

glob_states glob_start(const struct glob *glob) {
    return with_empty_spans(glob, 1);
}

glob_states glob_step(const struct glob *glob, glob_states states, const char *name) {
    glob_states next = 0;
    for (int i = 0; i < glob->part_count; i++) {
        if ((states >> i & 1) == 0) {
            continue;
        }
        if (glob->spans[i]) {
            next |= name[0] == '.' ? 0 : (glob_states)1 << i;
        } else if (glob_part_matches(glob->parts[i], name)) {
            next |= (glob_states)1 << (i + 1);
        }
    }
    return with_empty_spans(glob, next);
}

bool glob_accepts(const struct glob *glob, glob_states states) {
    return (states >> glob->part_count & 1) != 0;
}

bool glob_continues(const struct glob *glob, glob_states states) {
    return (states & (((glob_states)1 << glob->part_count) - 1)) != 0;
}
