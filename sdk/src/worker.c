#include <stdio.h>

#include "memory.h"
#include "task.h"

pgstage_worker *pgstage_host_worker_create(struct pgstage_host_text config, const char *folder,
                                           char *reason, size_t reason_size) {
    json_error_t error;
    json_t *object = json_loadb(config.data, config.length, 0, &error);
    if (!json_is_object(object)) {
        snprintf(reason, reason_size, "the stage's configuration cannot be used: %s",
                 object == NULL ? error.text : "it is no JSON object");
        json_decref(object);
        return NULL;
    }
    pgstage_worker *worker = sdk_allocate(sizeof *worker);
    if (worker == NULL) {
        snprintf(reason, reason_size, "no memory for the stage's configuration");
        json_decref(object);
        return NULL;
    }
    worker->config = object;
    worker->folder = folder != NULL ? folder : ".";
    worker->message[0] = '\0';
    return worker;
}

void pgstage_host_worker_destroy(pgstage_worker *worker) {
    if (worker != NULL) {
        json_decref(worker->config);
        sdk_release(worker);
    }
}

const json_t *pgstage_worker_config(pgstage_worker *worker) {
    return worker->config;
}

const char *pgstage_worker_folder(const pgstage_worker *worker) {
    return worker->folder;
}
