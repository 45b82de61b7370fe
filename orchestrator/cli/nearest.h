/* nearest.h - what somebody who wrote an unknown name may have meant. */
#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

struct nearest {
    const char *word; /* borrowed */
    char *best;       /* NULL: nothing is near */
    int distance;
};

void nearest_init(struct nearest *nearest, const char *word);
void nearest_offer(struct nearest *nearest, const char *candidate);
void nearest_finish(struct nearest *nearest);

#endif
