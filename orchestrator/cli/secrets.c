#include "cli/secrets.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/memory.h"

/* scheme://user:PASSWORD@: from the first colon to the last @, wherever a mistake may have put others. */
static void hide_in_url(char *text) {
    char *authority = strstr(text, "://");
    char *colon = authority == NULL ? NULL : strchr(authority + 3, ':');
    char *end = colon == NULL ? NULL : strrchr(colon, '@');
    if (end != NULL) {
        memset(colon + 1, '*', (size_t)(end - colon - 1));
    }
}

/* password=PASSWORD, also in quotes and in an URL's query. */
static void hide_parameter(char *text) {
    for (char *at = text; (at = strcasestr(at, "password")) != NULL;) {
        at += strlen("password");
        at += strspn(at, " ");
        if (*at != '=') {
            continue;
        }
        at += 1 + strspn(at + 1, " ");
        size_t length = *at == '\'' ? strlen(at) : strcspn(at, "& ");
        memset(at, '*', length);
        at += length;
    }
}

void secrets_hide_arguments(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strstr(argv[i], "://") != NULL || strcasestr(argv[i], "password") != NULL) {
            char *shown = argv[i];
            argv[i] = mem_copy_string(shown);
            hide_in_url(shown);
            hide_parameter(shown);
        }
    }
}

void secrets_hide_environment(void) {
    for (char **entry = environ; *entry != NULL; entry++) {
        char *shown = *entry, *value = strchr(shown, '=');
        *entry = mem_copy_string(shown);
        if (value != NULL) {
            memset(value + 1, '*', strlen(value + 1));
        }
    }
}
