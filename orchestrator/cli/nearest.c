#include "cli/nearest.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "config/suggest.h"

void nearest_init(struct nearest *nearest, const char *word) {
    int limit = (int)(strnlen(word, 63) / 3);
    *nearest = (struct nearest){.word = word, .distance = limit < 1 ? 2 : limit + 1};
}

/* Keys are long and begin alike: only the part in which they differ is measured. */
static int distance_of(const char *word, const char *candidate) {
    while (*word != '\0' && *word == *candidate) {
        word++;
        candidate++;
    }
    size_t word_length = strlen(word), length = strlen(candidate);
    while (word_length > 0 && length > 0 && word[word_length - 1] == candidate[length - 1]) {
        word_length--;
        length--;
    }
    char *left = mem_copy_bytes(word, word_length), *right = mem_copy_bytes(candidate, length);
    for (char *at = right; *at != '\0'; at++) {
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at + 'a' - 'A' : *at);
    }
    int distance = suggest_distance(left, right);
    free(left);
    free(right);
    return distance;
}

void nearest_offer(struct nearest *nearest, const char *candidate) {
    int distance = distance_of(nearest->word, candidate);
    if (distance < nearest->distance) {
        free(nearest->best);
        nearest->best = mem_copy_string(candidate);
        nearest->distance = distance;
    }
}

void nearest_finish(struct nearest *nearest) {
    free(nearest->best);
    *nearest = (struct nearest){0};
}
