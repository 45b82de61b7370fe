/* secrets.h - what the kernel shows of this process: its arguments to every user of the host (ps), its environment to those
 * that run as the same user, as handlers do. */
#ifndef CLI_SECRETS_H
#define CLI_SECRETS_H

/* Makes stars of passwords in connection strings where the kernel shows the arguments; argv goes on to point to what was given. There is a moment before
 * this is called: the environment is the better place for a password. */
void secrets_hide_arguments(int argc, char **argv);

/* Makes stars of the values of all variables where the kernel shows them: what is a secret, only its user knows. getenv and
 * environ go on to give them. When: before anybody has kept a pointer to one. */
void secrets_hide_environment(void);

#endif
