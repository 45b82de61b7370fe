#include "cli/instant.h"

#include <string.h>

/* Exactly `digits` digits; -1 when they are not there. */
static int read_number(const char **at, int digits) {
    int value = 0;
    for (int i = 0; i < digits; i++) {
        if ((*at)[i] < '0' || (*at)[i] > '9') {
            return -1;
        }
        value = value * 10 + ((*at)[i] - '0');
    }
    *at += digits;
    return value;
}

static bool read_date(const char **at) {
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = read_number(at, 4);
    if (year < 1 || *(*at)++ != '-') {
        return false;
    }
    int month = read_number(at, 2);
    if (month < 1 || month > 12 || *(*at)++ != '-') {
        return false;
    }
    int day = read_number(at, 2);
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day >= 1 && day <= lengths[month - 1] + (month == 2 && leap ? 1 : 0);
}

static bool read_time(const char **at) {
    int hour = read_number(at, 2);
    if (hour < 0 || hour > 23 || *(*at)++ != ':') {
        return false;
    }
    int minute = read_number(at, 2);
    if (minute < 0 || minute > 59) {
        return false;
    }
    if (**at != ':') {
        return true;
    }
    (*at)++;
    int second = read_number(at, 2);
    if (second < 0 || second > 60) {
        return false;
    }
    if (**at == '.') {
        size_t digits = strspn(*at + 1, "0123456789");
        *at += 1 + digits;
        return digits >= 1 && digits <= 9;
    }
    return true;
}

static bool read_zone(const char *at) {
    if (strcmp(at, "Z") == 0) {
        return true;
    }
    if (*at != '+' && *at != '-') {
        return false;
    }
    at++;
    int hours = read_number(&at, 2), minutes = 0;
    if (*at != '\0') {
        at += *at == ':';
        minutes = read_number(&at, 2);
    }
    return hours >= 0 && hours <= 15 && minutes >= 0 && minutes <= 59 && *at == '\0';
}

bool instant_is_valid(const char *text) {
    if (!read_date(&text) || (*text != 'T' && *text != ' ')) {
        return false;
    }
    text++;
    return read_time(&text) && read_zone(text);
}
