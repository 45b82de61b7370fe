/* actions.h - what retry, cancel, rerun and priority share: tasks by key, or by filter after a count and a yes, in batches.
 */
#ifndef CLI_ACTIONS_H
#define CLI_ACTIONS_H

#include "cli/selection.h"
#include "sql/statements.h"

struct action {
    const struct sql_statement *statement; /* $1 ids; $2 the stage when from_stage, or the number */
    const char *verb, *done;               /* "retry", "retried" */
    bool from_stage;                       /* takes --from and --all */
    const char *number_what;               /* what the number between pipeline and keys is; NULL: none is taken */
    const char *const *statuses;           /* that it applies to; ends with NULL. NULL: any */
    bool search_each;                      /* a search a status, by its index; else one, which sees each task once */
    bool ends_periods; /* also of tasks that it does not apply to: those are sent too, and counted by themselves */
    const char *otherwise; /* why it does not apply to another status, and what may be wanted instead */
};

#define ACTION_OPTIONS \
    SELECTION_OPTIONS, {"yes", NULL, "do not ask whether it is meant"}, \
        {"json", NULL, "print {\"tasks\": N, \"running\": N}: how many it was done to"}

enum exit_status action_run(const struct args *args, const struct action *action);

#endif
