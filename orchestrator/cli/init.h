/* init.h - being the first process of a container (PID 1): signals are passed on and strangers' zombies are reaped. */
#ifndef CLI_INIT_H
#define CLI_INIT_H

/* Returns at once unless this is process 1. As process 1: forks, returns in the child; the parent passes TERM, INT, HUP
 * and QUIT on, reaps every orphan, and exits as the child did. */
void init_if_first_process(void);

#endif
