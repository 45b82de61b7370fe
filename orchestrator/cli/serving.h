/* serving.h - which stages a node serves, and with how many workers: --stage, --only, --label, --schedules-only, and what
 * stages require.
 *
 * A stage that a node does not serve has no workers there; its tasks are left to other nodes.
 */
#ifndef CLI_SERVING_H
#define CLI_SERVING_H

#include "cli/definitions.h"

/* Whether the options are well-formed; a mistake is printed. */
bool serving_check(const struct args *args);
/* The labels of this process, NULL-terminated; free() the list and what is in it with serving_labels_free. */
char **serving_labels(const struct args *args);
void serving_labels_free(char **labels);
/* The options go on to mean the stages that they meant at the start, under whatever name: sets `called` of a definition that
 * is read for a reload. first: as the node was started. now: as it works; it says what the stages of a definition that is
 * not registered yet were. The names are borrowed from `first`. */
void serving_follow_renames(struct definition *definition, const struct node_pipeline *now, const struct definition *first);
/* Sets workers and `elsewhere` of all stages. False when the node would have nothing to do: it serves none, and does not
 * fire schedules only. */
bool serving_settle(const struct args *args, struct definition *definitions, int count);
/* The first name in the options that no stage has; NULL: none. Borrowed from the arguments; *length of it. */
const char *serving_unknown(const struct args *args, const struct definition *definitions, int count, size_t *length);
/* Names the labels that a definition wants and the node does not have; "" when there are none. */
void serving_missing_labels(const struct args *args, const struct definition *definition, struct buf *out);

#endif
