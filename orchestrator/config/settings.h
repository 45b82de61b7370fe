/* settings.h - what SQL needs of a definition, as one JSON document: pgstage.revision.settings.
 *
 * An object; a member is there only when the definition says something of it:
 *   "max_steps": N
 *   "retention": {"done", "failed", "cancelled", "errors"}: ms; what is missing is kept for good
 *   "stages": {NAME: {...}} (settings of single stages)
 *     "max_running": N
 *     "requires": [LABEL, ...]     for status: which nodes could serve it
 *     "renamed_from": NAME         for pgstage.register
 *   "schedules": [{"name", "spec", "every_ms" or "cron" and "zone", "action", "overlap", "missed", "jitter_ms",
 *                  "timeout_ms", "requires": [LABEL, ...]}], see pgstage.set_schedules
 * Thread rule: any thread; pure.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include "config/pipeline.h"

/* Appends the settings, as compact JSON with sorted keys: equal definitions give equal text. */
void settings_write(const struct pipeline_def *def, struct buf *out);

#endif
