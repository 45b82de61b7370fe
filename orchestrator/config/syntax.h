/* syntax.h - what is wrong with a file as YAML, in words; used while its tree is read. */
#ifndef CONFIG_SYNTAX_H
#define CONFIG_SYNTAX_H

#include <stdbool.h>
#include <yaml.h>

#include "config/mistakes.h"
#include "config/source_text.h"

/* Reports libyaml's error, with a hint for those that people meet. */
void syntax_explain(const yaml_parser_t *parser, const struct source_text *source,
                    struct mistakes *mistakes);

/* True when the file begins with a directive (%YAML, %TAG), which is reported. */
bool syntax_refuse_directive(const struct source_text *source, struct mistakes *mistakes);

/* Reports anything but comments and end marks behind the first document. */
void syntax_refuse_rest(const struct source_text *source, struct position end,
                        struct mistakes *mistakes);

#endif
