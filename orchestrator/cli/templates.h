/* templates.h - the files of a new pipeline, embedded from templates/. In names and texts "@NAME@" stands for its name. */
#ifndef CLI_TEMPLATES_H
#define CLI_TEMPLATES_H

struct template {
    const char *file, *text;
};

extern const struct template templates[]; /* ends with a NULL file */

#endif
