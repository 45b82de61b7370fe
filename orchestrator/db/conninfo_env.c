#include "db/conninfo_env.h"

#include <libpq-fe.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "db/conninfo.h"

/* keyword='value', quoted as libpq wants it. */
static void append_option(struct buf *out, const PQconninfoOption *option) {
    buf_append_format(out, "%s%s='", out->length > 0 ? " " : "", option->keyword);
    for (const char *at = option->val; *at != '\0'; at++) {
        if (*at == '\'' || *at == '\\') {
            buf_append_char(out, '\\');
        }
        buf_append_char(out, *at);
    }
    buf_append_char(out, '\'');
}

static enum status set_variable(const char *name, const char *value, struct error *err) {
    return setenv(name, value, 1) == 0 ? STATUS_OK : error_set(err, STATUS_INTERNAL, "the environment is full");
}

enum status conninfo_to_environment(const char *url, char **rest, struct error *err) {
    *rest = NULL;
    struct conninfo *info = NULL;
    enum status status = conninfo_open(url, "psql", false, &info, err);
    conninfo_close(info);
    if (status != STATUS_OK) {
        return status;
    }
    if (url[0] != '\0' && strchr(url, '=') == NULL && strstr(url, "://") == NULL) {
        return set_variable("PGDATABASE", url, err); /* libpq takes a bare name for the database's */
    }
    char *message = NULL;
    PQconninfoOption *options = PQconninfoParse(url, &message);
    PQfreemem(message); /* it may quote the password */
    if (options == NULL) {
        return error_set(err, STATUS_INVALID, "the connection string is malformed");
    }
    struct buf others;
    buf_init(&others, SIZE_MAX);
    for (const PQconninfoOption *option = options; option->keyword != NULL && status == STATUS_OK; option++) {
        if (option->val == NULL || option->val[0] == '\0') {
            continue;
        }
        if (option->envvar == NULL) {
            append_option(&others, option);
        } else {
            status = set_variable(option->envvar, option->val, err);
        }
    }
    if (others.length > 0) {
        *rest = buf_take(&others);
    }
    buf_finish(&others);
    PQconninfoFree(options);
    return status;
}
