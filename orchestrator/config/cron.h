/* cron.h - a cron entry of five fields as bit masks: minute, hour, day of the month, month, weekday.
 *
 * Fields: *, a value, a range a-b, each of these but the value with a step /n, and lists of them. Months and weekdays also
 * by their English names' first three letters; Sunday is 0 and 7. Days and weekdays that are both restricted (neither
 * begins with *): one of them is enough, as cron has it. Whole entries: @hourly, @daily, @midnight, @weekly, @monthly,
 * @yearly, @annually. Used by schedules.c; what the masks mean in time is pgstage.cron_next's. Pure; any thread.
 */
#ifndef CONFIG_CRON_H
#define CONFIG_CRON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct cron_masks {
    int64_t minutes, days;       /* bits 0-59, 1-31 */
    int hours, months, weekdays; /* bits 0-23, 1-12, 0-6 */
    bool day_or_weekday;
};

struct cron_fault {
    size_t offset; /* of the field or its part that is wrong */
    const char *message, *hint; /* hint: or NULL */
};

/* False, with the fault in the arena, also for an entry whose day never comes. */
bool cron_parse(const char *text, struct cron_masks *masks, struct arena *arena, struct cron_fault *fault);
/* The smallest gap between two ticks, with days that follow each other, and without changes of the clocks. 1 to 1440. */
int cron_smallest_gap_minutes(const struct cron_masks *masks);

#endif
