/* effects_sql.c - statements that an effect may not send, told by their first word; and what undoes the others' settings.
 *
 * They would break the frame that the others rely on, and the server would not refuse them: the end
 * of the transaction makes halves of one commit, and COPY with the client goes out of the
 * protocol's step. effect_check stands behind this.
 */
#include <string.h>
#include <strings.h>

#include "queue/effects.h"

/* Behind blanks, comments, which nest, and empty statements, which the server passes over. */
static const char *skip_to_word(const char *sql) {
    int depth = 0;
    while (*sql != '\0') {
        if (strncmp(sql, "/*", 2) == 0) {
            depth++;
            sql += 2;
        } else if (depth > 0 && strncmp(sql, "*/", 2) == 0) {
            depth--;
            sql += 2;
        } else if (depth == 0 && strncmp(sql, "--", 2) == 0) {
            sql += strcspn(sql, "\r\n");
        } else if (depth > 0 || strchr(" \t\r\n\f\v;", *sql) != NULL) {
            sql++;
        } else {
            break;
        }
    }
    return sql;
}

static bool is_word(const char *sql, const char *word) {
    size_t length = strlen(word);
    const char *behind = sql + length;
    return strncasecmp(sql, word, length) == 0 &&
           (*behind == '\0' || strchr(" \t\r\n\f\v;(/-", *behind) != NULL);
}

const char *effects_refusal(const char *sql) {
    static const char *const ends[] = {"begin", "start", "commit", "end", "rollback", "abort"};
    const char *word = skip_to_word(sql);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (!is_word(word, ends[i])) {
            continue;
        }
        /* ROLLBACK TO a savepoint stays inside. */
        const char *next = skip_to_word(word + strlen(ends[i]));
        if (is_word(next, "work") || is_word(next, "transaction")) {
            next = skip_to_word(next + strcspn(next, " \t\r\n\f\v"));
        }
        return is_word(next, "to") ? NULL
                                   : "a statement of a stage cannot begin or end a transaction";
    }
    if (is_word(word, "prepare") &&
        is_word(skip_to_word(word + strlen("prepare")), "transaction")) {
        return "a statement of a stage cannot begin or end a transaction";
    }
    if (is_word(word, "copy") &&
        (strcasestr(word, "stdin") != NULL || strcasestr(word, "stdout") != NULL)) {
        return "COPY to or from the client is not possible in a stage";
    }
    return NULL;
}

/* As conn_reset.c does it behind the transaction, so far as others that share it could tell. RESET ALL takes with it what
 * effect_begin sets, and where a pooler set the encoding, that. */
void effects_add_undo(struct script *script) {
    static const char *const commands[] = {
        "reset session authorization", "reset role", "reset all", "set client_encoding to 'UTF8'", "close all", "discard temp",
    };
    _Static_assert(sizeof commands / sizeof *commands + 1 <= EFFECTS_UNDO_MAX, "room among the owners");
    (void)script_add(script, &sql_effect_check, 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        (void)script_add_text(script, commands[i], 0);
    }
}
