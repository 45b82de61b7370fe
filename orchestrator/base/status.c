/* status.c - names and the retry policy of the status codes. */
#include "base/status.h"

const char *status_name(enum status code) {
    switch (code) {
    case STATUS_OK:
        return "ok";
    case STATUS_AGAIN:
        return "again";
    case STATUS_INVALID:
        return "invalid";
    case STATUS_NOT_FOUND:
        return "not_found";
    case STATUS_CONFLICT:
        return "conflict";
    case STATUS_TIMEOUT:
        return "timeout";
    case STATUS_UNAVAILABLE:
        return "unavailable";
    case STATUS_UNCERTAIN:
        return "uncertain";
    case STATUS_PROTOCOL:
        return "protocol";
    case STATUS_LIMIT:
        return "limit";
    case STATUS_INTERNAL:
        return "internal";
    }
    return "unknown";
}

bool status_is_transient(enum status code) {
    switch (code) {
    case STATUS_AGAIN:
    case STATUS_TIMEOUT:
    case STATUS_UNAVAILABLE:
    case STATUS_UNCERTAIN:
        return true;
    case STATUS_OK:
    case STATUS_INVALID:
    case STATUS_NOT_FOUND:
    case STATUS_CONFLICT:
    case STATUS_PROTOCOL:
    case STATUS_LIMIT:
    case STATUS_INTERNAL:
        return false;
    }
    return false;
}
