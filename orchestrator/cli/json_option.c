#include "cli/json_option.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cli/json_read.h"
#include "cli/line_reader.h"
#include "cli/output.h"
#include "cli/submit.h"

static enum exit_status check(const char *option, const char *name, const char *text, size_t length) {
    struct json_mistake mistake;
    if (length > PAYLOAD_MAX) {
        fprintf(stderr, "%s: the %s is longer than %d MB\n", text_shown(name), option, PAYLOAD_MAX >> 20);
        return EXIT_WRONG;
    }
    if (!json_check(text, length, &mistake)) {
        fprintf(stderr, "%s:%d:%d: %s\n", text_shown(name), mistake.line, mistake.column, text_shown(mistake.why));
        return EXIT_WRONG;
    }
    return EXIT_OK;
}

enum exit_status json_option_read(const struct args *args, const char *option, char **text, size_t *length) {
    const char *value = args_get(args, option);
    char name[32];
    snprintf(name, sizeof name, "--%s", option);
    if (value == NULL) {
        return EXIT_OK;
    }
    if (value[0] != '@' && strcmp(value, "-") != 0) {
        *text = mem_copy_string(value);
        *length = strlen(value);
        return check(option, name, *text, *length);
    }
    const char *path = value[0] == '@' ? value + 1 : value;
    struct error err = ERROR_NONE;
    if (read_whole(path, PAYLOAD_MAX, text, length, &err) != STATUS_OK) {
        report_error(&err);
        return EXIT_WRONG;
    }
    return check(option, value[0] == '@' ? path : "standard input", *text, *length);
}

bool json_text_is_null(const char *text) {
    const char *start = text + strspn(text, " \t\r\n");
    return json_means_nothing(start, strcspn(start, " \t\r\n"));
}
