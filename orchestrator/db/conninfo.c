/* conninfo.c - reading a connection string with libpq's own parser.
 *
 * libpq's messages about a malformed string quote parts of it, and what it takes for a host name or
 * a port may be a piece of a password with an unescaped '@', ':' or '/'. So such strings are
 * refused here, before anything can quote them.
 */
#include "db/conninfo.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/require.h"

static const char bad_string[] =
    "the connection string cannot be read (it is not shown: it may hold a password); expected "
    "postgresql://user:password@host:port/dbname, with other special characters written as %XX, "
    "or host=... dbname=...";

/* After the user part, a URI's host, port and path hold no further '@': one that does was cut in
 * the middle of its password. */
static bool uri_is_clean(const char *url) {
    const char *start = strstr(url, "://");
    const char *equals = strchr(url, '=');
    if (start == NULL || (equals != NULL && equals < start)) {
        return true;
    }
    start += 3;
    const char *end = start + strcspn(start, "@/");
    const char *rest = *end == '@' ? end + 1 : start;
    const char *path_end = rest + strcspn(rest, "?");
    return memchr(rest, '@', (size_t)(path_end - rest)) == NULL;
}

static const char *option_value(const PQconninfoOption *options, const char *keyword) {
    for (; options != NULL && options->keyword != NULL; options++) {
        if (strcmp(options->keyword, keyword) == 0) {
            return options->val != NULL ? options->val : "";
        }
    }
    return "";
}

/* The options that hold once environment, service file and defaults are taken in. libpq tells them
 * of a connection only, so one is begun that its option check refuses, before any name is looked
 * up. */
static PQconninfoOption *effective_options(const char *url) {
    const char *const keywords[] = {"dbname", "ssl_min_protocol_version", NULL};
    const char *const values[] = {url, "none", NULL};
    PGconn *refused = PQconnectStartParams(keywords, values, 1);
    PQconninfoOption *options = PQconninfo(refused);
    PQfinish(refused);
    return options;
}

static int count_entries(const char *list) {
    int count = 1;
    for (; *list != '\0'; list++) {
        count += *list == ',';
    }
    return count;
}

static char *entry_at(const char *list, int index) {
    for (; index > 0; index--) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    return mem_copy_bytes(list, strcspn(list, ","));
}

static bool is_number(const char *text) {
    return text[strspn(text, "0123456789")] == '\0';
}

static bool is_host_name(const char *name) {
    unsigned char address[sizeof(struct in6_addr)];
    return name[0] != '\0' && name[0] != '/' && name[0] != '@' &&
           inet_pton(AF_INET, name, address) != 1 && inet_pton(AF_INET6, name, address) != 1;
}

static void read_hosts(struct conninfo *info, const PQconninfoOption *options) {
    const char *names = option_value(options, "host");
    const char *addresses = option_value(options, "hostaddr");
    const char *ports = option_value(options, "port");
    int count = count_entries(names[0] != '\0' ? names : addresses);
    bool matches =
        (addresses[0] == '\0' || names[0] == '\0' || count_entries(addresses) == count) &&
        (count_entries(ports) == 1 || count_entries(ports) == count);
    if ((names[0] == '\0' && addresses[0] == '\0') || !matches) {
        return; /* libpq's default, or lists that libpq refuses in words */
    }
    info->hosts = mem_alloc((size_t)count * sizeof *info->hosts);
    info->host_count = count;
    for (int i = 0; i < count; i++) {
        struct conninfo_host *host = &info->hosts[i];
        host->name = entry_at(names, i);
        host->address = entry_at(addresses, i);
        host->port = entry_at(ports, count_entries(ports) == 1 ? 0 : i);
        host->needs_lookup = host->address[0] == '\0' && is_host_name(host->name);
    }
}

static bool ports_are_numbers(const struct conninfo *info) {
    for (int i = 0; i < info->host_count; i++) {
        if (!is_number(info->hosts[i].port)) {
            return false;
        }
    }
    return true;
}

static void add_unless_set(struct conninfo *info, const PQconninfoOption *options,
                           const char *keyword, const char *value) {
    const char *set = option_value(options, keyword);
    if (set[0] == '\0') {
        REQUIRE(info->added_count < CONNINFO_ADDED_MAX);
        info->added[info->added_count].keyword = keyword;
        info->added[info->added_count++].value = value;
    }
}

/* A dead peer is noticed in 25 seconds when idle, in 20 when something was sent. */
static void add_defaults(struct conninfo *info, const PQconninfoOption *given,
                         const PQconninfoOption *options, bool writes) {
    add_unless_set(info, options, "keepalives_idle", "10");
    add_unless_set(info, options, "keepalives_interval", "5");
    add_unless_set(info, options, "keepalives_count", "3");
    add_unless_set(info, options, "tcp_user_timeout", "20000");
    add_unless_set(info, options, "connect_timeout", "10"); /* blocking connections only */
    /* "any" is libpq's default, which a writer of several hosts cannot mean unless it says so. */
    if (writes && option_value(given, "target_session_attrs")[0] == '\0' &&
        strcmp(option_value(options, "target_session_attrs"), "any") == 0) {
        REQUIRE(info->added_count < CONNINFO_ADDED_MAX);
        info->added[info->added_count].keyword = "target_session_attrs";
        info->added[info->added_count++].value = "read-write";
    }
}

enum status conninfo_open(const char *url, const char *role, bool writes, struct conninfo **info,
                          struct error *err) {
    PQconninfoOption *given = PQconninfoParse(url, NULL);
    if (given == NULL || !uri_is_clean(url)) {
        PQconninfoFree(given);
        return error_set(err, STATUS_INVALID, "%s", bad_string);
    }

    struct conninfo *made = mem_alloc(sizeof *made);
    made->url = mem_copy_string(url);
    made->application_name = mem_format("pgstage %s", role);
    PQconninfoOption *options = effective_options(url);
    read_hosts(made, options);
    add_defaults(made, given, options, writes);
    PQconninfoFree(options);
    PQconninfoFree(given);
    if (!ports_are_numbers(made)) {
        conninfo_close(made);
        return error_set(err, STATUS_INVALID, "%s", bad_string);
    }
    *info = made;
    return STATUS_OK;
}

void conninfo_close(struct conninfo *info) {
    if (info == NULL) {
        return;
    }
    for (int i = 0; i < info->host_count; i++) {
        free(info->hosts[i].name);
        free(info->hosts[i].address);
        free(info->hosts[i].port);
    }
    free(info->hosts);
    free(info->application_name);
    free(info->url);
    free(info);
}

void conninfo_params(const struct conninfo *info, const char *hosts, const char *addresses,
                     const char *ports, struct conninfo_params *params) {
    int count = 0;
    for (int i = 0; i < info->added_count; i++) {
        params->keywords[count] = info->added[i].keyword;
        params->values[count++] = info->added[i].value;
    }
    /* Of two values for one keyword the later wins; dbname stands for all that the string sets. */
    const char *const last[][2] = {
        {"dbname", info->url},
        {"host", hosts},
        {"hostaddr", addresses},
        {"port", ports},
        {"application_name", info->application_name},
        {"client_encoding", "UTF8"},
    };
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++) {
        params->keywords[count] = last[i][0];
        params->values[count++] = last[i][1] != NULL ? last[i][1] : "";
    }
    params->keywords[count] = NULL;
    params->values[count] = NULL;
    REQUIRE(count < CONNINFO_PARAMS_MAX);
}
