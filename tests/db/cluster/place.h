/* place.h - a home folder for one test, other processes that use it, and a deadline for everything. */
#ifndef TESTS_DB_CLUSTER_PLACE_H
#define TESTS_DB_CLUSTER_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

enum { DEADLINE_MS = 120 * 1000 };

/* place_open makes FOLDER (0711) and leaves HOME in it to be made; place_close ends every server and user of it. */
extern char folder[64];
extern char home[512];
void place_open(void);
void place_close(void);
/* Skips the test unless it runs as root. */
void place_needs_root(void);
/* HOME with a data folder, copied from one that was made before the first test. */
void place_fill(void);
/* HOME is `name` in FOLDER, which may be long. */
void place_name(const char *name);
/* FOLDER/HOME/name; borrowed until the fourth next call. */
const char *in_home(const char *name);
uid_t server_uid(void);

void wait_until(bool (*condition)(const void *context), const void *context, const char *what);
bool exists(const void *path);

/* A process that uses HOME until it is told to end. */
struct user {
    pid_t pid;
    int commands, answers;
};
struct user user_start(void);
struct user user_start_waiting(void); /* does nothing before user_go */
void user_go(struct user *user);
void user_await(struct user *user); /* it uses the cluster now */
void user_end(struct user *user);   /* it releases the cluster and ends */
void user_kill(struct user *user);

/* A child that place_close kills when the test ended before it could. */
void child_adopt(pid_t pid);
/* Kills and reaps it. */
void child_end(pid_t pid);

/* Runs in a child process; what it writes to `text` is compared or printed. Returns its exit status. */
int in_child(int (*body)(char *text, size_t size), char *text, size_t size);
/* The calling process becomes an ordinary user for good. */
void become(const char *name);

/* The server's state as cluster_state tells it. */
int server_process(void);
bool server_is_held(void);
/* SIGKILL to every process of the server of HOME, and waits until they are gone. */
void kill_server(void);
bool is_gone(const void *pid); /* const pid_t * */

/* First column of the first row, "" when there is none; borrowed until the next call. */
const char *sql(const char *url, const char *statement);
void file_write(const char *path, const char *text, uid_t uid, mode_t mode);

#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        struct error err_ = ERROR_NONE, *err = &err_;                                              \
        enum status status_ = (call);                                                              \
        cr_assert_eq(status_, STATUS_OK, "%s: %s", status_name(status_), err_.text);               \
    } while (0)

#define ASSERT_CONTAINS(text, part)                                                                \
    cr_assert(strstr((text), (part)) != NULL, "'%s' is not in: %s", (part), (text))

#endif
