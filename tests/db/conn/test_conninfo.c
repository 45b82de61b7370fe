/* Connection strings: what is added, what is looked up, and that no error shows a piece of one
 * (C82b). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "db/conninfo.h"
#include "db/sync.h"

TestSuite(db_conninfo, .timeout = 60);

static struct conninfo *read_string(const char *url, bool writes) {
    struct conninfo *info = NULL;
    struct error err = ERROR_NONE;
    cr_assert_eq(conninfo_open(url, "ledger", writes, &info, &err), STATUS_OK, "%s: %s", url,
                 err.text);
    return info;
}

static const char *param(const struct conninfo *info, const char *keyword) {
    static struct conninfo_params params;
    conninfo_params(info, NULL, NULL, NULL, &params);
    const char *found = NULL;
    for (int i = 0; params.keywords[i] != NULL; i++) {
        if (strcmp(params.keywords[i], keyword) == 0) {
            found = params.values[i];
        }
    }
    return found;
}

Test(db_conninfo, adds_what_the_string_does_not_set) {
    struct conninfo *info = read_string("postgresql://h/db", true);
    cr_assert_str_eq(param(info, "keepalives_idle"), "10");
    cr_assert_str_eq(param(info, "keepalives_interval"), "5");
    cr_assert_str_eq(param(info, "keepalives_count"), "3");
    cr_assert_str_eq(param(info, "tcp_user_timeout"), "20000");
    cr_assert_str_eq(param(info, "target_session_attrs"), "read-write");
    cr_assert_str_eq(param(info, "application_name"), "pgstage ledger");
    cr_assert_str_eq(param(info, "client_encoding"), "UTF8");
    conninfo_close(info);

    info =
        read_string("host=h keepalives_idle=99 tcp_user_timeout=5 target_session_attrs=any", true);
    cr_assert_null(param(info, "keepalives_idle"));
    cr_assert_null(param(info, "tcp_user_timeout"));
    cr_assert_null(param(info, "target_session_attrs"));
    cr_assert_str_eq(param(info, "keepalives_count"), "3");
    conninfo_close(info);

    info = read_string("postgresql://h/db", false);
    cr_assert_null(param(info, "target_session_attrs"));
    conninfo_close(info);
    conninfo_close(NULL);
}

Test(db_conninfo, knows_which_names_need_a_lookup) {
    struct conninfo *info =
        read_string("postgresql://a.example:1,127.0.0.1:2,[::1]:3,%2Ftmp:4,b.example/db", true);
    static const bool lookups[] = {true, false, false, false, true};
    static const char *const names[] = {"a.example", "127.0.0.1", "::1", "/tmp", "b.example"};
    static const char *const ports[] = {"1", "2", "3", "4", ""};
    cr_assert_eq(info->host_count, 5);
    for (int i = 0; i < 5; i++) {
        cr_assert_str_eq(info->hosts[i].name, names[i]);
        cr_assert_str_eq(info->hosts[i].port, ports[i]);
        cr_assert_eq(info->hosts[i].needs_lookup, lookups[i], "%s", names[i]);
    }
    conninfo_close(info);

    info = read_string("host=a,b hostaddr=127.0.0.1, port=7", true);
    cr_assert_eq(info->host_count, 2);
    cr_assert_not(info->hosts[0].needs_lookup);
    cr_assert(info->hosts[1].needs_lookup);
    cr_assert_str_eq(info->hosts[1].port, "7");
    conninfo_close(info);

    info = read_string("host=a,b hostaddr=127.0.0.1", true); /* libpq refuses it in words */
    cr_assert_eq(info->host_count, 0);
    conninfo_close(info);
}

Test(db_conninfo, takes_hosts_from_the_environment) {
    setenv("PGHOST", "from.env", 1);
    setenv("PGPORT", "77", 1);
    struct conninfo *info = read_string("", true);
    cr_assert_eq(info->host_count, 1);
    cr_assert_str_eq(info->hosts[0].name, "from.env");
    cr_assert_str_eq(info->hosts[0].port, "77");
    conninfo_close(info);
    unsetenv("PGHOST");
    unsetenv("PGPORT");
}

/* In each of these, libpq would quote a piece of the password, or take one for a host name or a
 * port. */
static const char *const malformed[] = {
    "postgresql://u:canary@77@h/db",
    "postgresql://u:canary/77@h/db",
    "postgresql://u:ca@na/ry@h/db",
    "postgresql://u:canary%zz@h/db",
    "postgresql://u:canary%@h/db",
    "postgresql://u:canary/77?x@h/db",
    "postgresql://u:p@h:canary/db",
    "postgresql://u:p@h/db?canary",
    "postgresql://u:p@h/db?canary=canary",
    "postgresql://u:p@[canary/db",
    "host=h password=can canary",
    "host=h password='canary",
    "password=p canary",
    "canary",
    "host=h port=canary",
    "user=u password=x canary=y",
};

Test(db_conninfo, malformed_strings_are_refused_and_never_shown) {
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        struct conninfo *info = NULL;
        struct error err = ERROR_NONE;
        cr_assert_eq(conninfo_open(malformed[i], "test", true, &info, &err), STATUS_INVALID, "%s",
                     malformed[i]);
        cr_assert_null(strstr(err.text, "canary"), "%s", err.text);
        cr_assert_not_null(strstr(err.text, "connection string"), "%s", err.text);
        struct db_sync *db = NULL;
        cr_assert_eq(sync_open(malformed[i], "test", &db, NULL), STATUS_INVALID);
    }
}

static const char *const sound[] = {
    "",
    "postgresql://",
    "postgres://u@h",
    "postgresql://u:p%40ss%2F@h:5432/db?sslmode=require",
    "postgresql://u:p?ss@h/db",
    "postgresql:///db?host=@abstract",
    "postgresql:///db?user=a@b&password=x@y",
    "host=h password=a://b@c@d dbname=x",
    "host=/tmp dbname='x y'",
};

Test(db_conninfo, sound_strings_are_taken) {
    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++) {
        conninfo_close(read_string(sound[i], true));
    }
}
