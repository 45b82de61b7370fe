/* loader.h - what the parts that turn a tree into a definition share; private to config/. */
#ifndef CONFIG_LOADER_H
#define CONFIG_LOADER_H

#include <stddef.h>

#include "base/arena.h"
#include "config/mistakes.h"
#include "config/pipeline.h"
#include "config/schema.h"
#include "config/source_text.h"
#include "config/tree.h"

struct loader {
    struct pipeline_def *def;  /* what is filled; strings go into its arena */
    struct arena *scratch;     /* the tree, mistakes, hints */
    struct mistakes *mistakes; /* the file is wrong when there is one */
    const struct source_text *source;
    struct stage_def defaults;          /* what each stage begins with */
    const struct tree_node *stage_list; /* read when `defaults` is whole */
    const struct tree_node *schedule_list; /* read when the stages are there */
    size_t expanded_bytes;              /* made from environment variables */
};

/* The text of a scalar with its environment variables replaced, in the definition's arena. NULL
 * when that cannot be done, which is reported. */
const char *expand_environment(struct loader *loader, const struct tree_node *node);

/* The same as an absolute path: "~" and "~/..." below HOME, others relative to the file's folder.
 */
const char *expand_path(struct loader *loader, const struct tree_node *node);

/* The absolute folder of `path`, in the arena; NULL when the working folder is needed and gone. */
const char *expand_folder(struct arena *arena, const char *path);

/* A `with:` mapping as JSON text, in the definition's arena. NULL when it has a mistake. */
const char *json_from_tree(struct loader *loader, const struct tree_node *node);

/* Fills what the file leaves out, for all keys of the levels (bits). */
void walk_fallbacks(struct loader *loader, unsigned levels, void *target);

/* Reads the keys of a mapping into `target`, reporting what is unknown, wrong or missing. `where`
 * is for messages: "stage 'x'". */
void walk_mapping(struct loader *loader, enum config_level level, const struct tree_node *node,
                  void *target, const char *where);

/* Values that are more than one scalar. */
void values_read_texts(struct loader *loader, const struct config_key *key,
                       const struct tree_node *node, void *target);
void values_read_handler(struct loader *loader, const struct tree_node *node,
                         struct stage_def *stage);
void values_read_sql(struct loader *loader, const struct config_key *key,
                     const struct tree_node *node, struct stage_def *stage);
void values_read_json(struct loader *loader, const struct config_key *key,
                      const struct tree_node *node, void *target);

/* The list of stages, when all else was read. */
void stages_read(struct loader *loader, const struct tree_node *list);

/* The list of schedules, after the stages. */
void schedules_read(struct loader *loader, const struct tree_node *list);
void schedules_read_do(struct loader *loader, const struct config_key *key,
                       const struct tree_node *node, struct schedule_def *schedule);

#endif
