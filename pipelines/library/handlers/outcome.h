/* outcome.h - how work on one document ended, and why, in words for the person who owns it. */
#ifndef LIBRARY_OUTCOME_H
#define LIBRARY_OUTCOME_H

#include <stdarg.h>
#include <stdio.h>

enum outcome {
    OUTCOME_OK,
    OUTCOME_BAD,   /* the document is at fault: trying again would not help */
    OUTCOME_LATER, /* the machine is at fault, or the moment: trying again may help */
};

struct reason {
    char text[400];
};

__attribute__((format(printf, 3, 4))) static inline enum outcome
because(struct reason *reason, enum outcome outcome, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(reason->text, sizeof reason->text, format, args);
    va_end(args);
    return outcome;
}

#endif
