/* subjects.h - handlers to be tested with the kit, some of them bad. */
#ifndef TESTS_UNIT_KIT_SUBJECTS_H
#define TESTS_UNIT_KIT_SUBJECTS_H

#include <pgstage/test.h>

extern const struct pgstage_handler pgstage_handler_everything; /* each function of handler.h once, in its order there */
extern const struct pgstage_handler pgstage_handler_page;       /* with init, fini and a batch; behaves */
extern const struct pgstage_handler pgstage_handler_flow;       /* does what the key says */
extern const struct pgstage_handler pgstage_handler_leaky;      /* loses what the payload says */
extern const struct pgstage_handler pgstage_handler_silent;     /* makes no SDK call */
extern const struct pgstage_handler pgstage_handler_batch_only;

extern void *leaky_kept[3]; /* what it keeps for good */
extern int page_lives; /* inits that were not followed by a fini */

#endif
