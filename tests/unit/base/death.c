#include "death.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void expect_abort(void (*call)(void), const char *message_part) {
    int pair[2];
    cr_assert_eq(pipe(pair), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        dup2(pair[1], STDERR_FILENO);
        close(pair[0]);
        close(pair[1]);
        call();
        _exit(0);
    }
    close(pair[1]);

    char message[4096];
    size_t length = 0;
    ssize_t count;
    while ((count = read(pair[0], message + length, sizeof message - 1 - length)) > 0) {
        length += (size_t)count;
    }
    message[length] = '\0';
    close(pair[0]);

    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "status %x: %s", (unsigned)status,
              message);
    cr_assert_not_null(strstr(message, message_part), "'%s' lacks '%s'", message, message_part);
}
