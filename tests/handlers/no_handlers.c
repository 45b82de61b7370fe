#include <pgstage/handler.h>

PGSTAGE_API int no_handlers_at_all(void);

int no_handlers_at_all(void) {
    return 0;
}
