/* locate.c - the user's own database when anything names one, the embedded one otherwise. */
#include "db/locate.h"

#include <stdlib.h>

#include "base/memory.h"

static const char *environment(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool libpq_is_told(void) {
    static const char *const names[] = {"PGHOST",     "PGHOSTADDR", "PGPORT",
                                        "PGDATABASE", "PGUSER",     "PGSERVICE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (environment(names[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static enum status use_embedded(const char *home_option, struct database *database,
                                struct error *err) {
    struct buf home;
    buf_init(&home, 4096);
    enum status status = cluster_home(home_option, &home, err);
    if (status == STATUS_OK && home.overflow) {
        status = error_set(err, STATUS_LIMIT, "the name of the home folder is too long");
    }
    if (status == STATUS_OK) {
        status = cluster_use(home.data, &database->cluster, err);
    }
    if (status == STATUS_OK) {
        database->url = mem_copy_string(cluster_url(database->cluster));
    }
    buf_finish(&home);
    return status;
}

enum status database_locate(const char *url_option, const char *home_option,
                            struct database *database, struct error *err) {
    *database = (struct database){0};
    const char *url = url_option != NULL ? url_option : environment("PGSTAGE_DATABASE_URL");
    if (url == NULL && libpq_is_told()) {
        url = "";
    }
    if (url == NULL) {
        return use_embedded(home_option, database, err);
    }
    database->url = mem_copy_string(url);
    return STATUS_OK;
}

void database_release(struct database *database) {
    cluster_release(database->cluster);
    free(database->url);
    *database = (struct database){0};
}
