#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/children.h"

TestSuite(children, .timeout = 30);

enum { MANY = 700 }; /* more than the kernel lists at once */

struct seen {
    int count;
    pid_t wanted;
    bool found;
};

static void see(void *context, pid_t child) {
    struct seen *seen = context;
    seen->count++;
    seen->found = seen->found || child == seen->wanted;
}

static struct seen look(pid_t wanted) {
    struct seen seen = {.wanted = wanted};
    children_each(see, &seen);
    return seen;
}

static pid_t fork_child(void) {
    pid_t child = fork();
    if (child == 0) {
        for (;;) {
            pause();
        }
    }
    return child;
}

static void end(pid_t child) {
    enum children_end got;
    while ((got = children_end(child)) == CHILDREN_DYING) {
        sched_yield();
    }
    cr_assert_eq(got, CHILDREN_REAPED);
}

Test(children, each_is_listed_dead_or_alive) {
    cr_assert_eq(look(0).count, 0);
    pid_t first = fork_child(), second = fork_child();
    cr_assert(look(first).found);
    cr_assert_eq(look(second).count, 2);
    kill(first, SIGKILL);
    cr_assert_eq(waitid(P_PID, (id_t)first, NULL, WEXITED | WNOWAIT), 0);
    cr_assert(look(first).found);
    end(first);
    cr_assert_eq(look(first).count, 1);
    end(second);
    cr_assert_eq(look(second).count, 0);
}

Test(children, hundreds_of_them) {
    pid_t children[MANY];
    for (int i = 0; i < MANY; i++) {
        children[i] = fork_child();
    }
    cr_assert_eq(look(children[MANY - 1]).count, MANY);
    cr_assert(look(children[MANY - 1]).found);
    for (int i = 0; i < MANY; i++) {
        end(children[i]);
    }
}

static bool takes_over(void) {
    int set = 0;
    cr_assert_eq(prctl(PR_GET_CHILD_SUBREAPER, &set), 0);
    return set != 0;
}

Test(children, nobody_is_taken_over_while_some_are_private) {
    cr_assert(children_look_begin());
    children_look_end();
    children_private_begin();
    cr_assert_not(takes_over());
    children_private_end();
    cr_assert_not(takes_over(), "it never was wished");

    cr_assert(children_take_over());
    cr_assert(takes_over());
    children_private_begin();
    children_private_begin();
    cr_assert_not(takes_over());
    cr_assert_not(children_look_begin());
    children_private_end();
    cr_assert_not(takes_over());
    cr_assert_not(children_look_begin());
    children_private_end();
    cr_assert(takes_over());
    cr_assert(children_look_begin());
    children_look_end();
}
