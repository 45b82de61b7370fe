/* argument_secrets.h - passwords in connection strings on the command line, which every user of the host sees in ps. */
#ifndef CLI_ARGUMENT_SECRETS_H
#define CLI_ARGUMENT_SECRETS_H

/* Makes stars of them where the kernel shows the arguments; argv goes on to point to what was given. There is a moment before
 * this is called: the environment is the better place for a password. */
void argument_secrets_hide(int argc, char **argv);

#endif
