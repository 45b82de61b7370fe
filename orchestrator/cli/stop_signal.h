/* stop_signal.h - INT and TERM before a node listens to them: the first is remembered, the second ends the process at once.
 * A HUP is remembered as well.
 *
 * Process-wide, for the main thread. The node replaces these handlers by its own and then asks stop_was_asked.
 */
#ifndef CLI_STOP_SIGNAL_H
#define CLI_STOP_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

void stop_listen(void);
bool stop_was_asked(void);
bool reload_was_asked(void);
/* Waits that long, or until a stop is asked for. */
void stop_wait_ms(int64_t ms);

#endif
