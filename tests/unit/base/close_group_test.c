#include "base/close_group.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "death.h"

TestSuite(close_group, .timeout = 10);

struct owner {
    uv_timer_t timer;
    uv_pipe_t pipe;
    uv_async_t async;
    struct close_group closing;
    int *done_count;
};

static void on_async(uv_async_t *async) {
    (void)async;
}

static struct owner *owner_create(uv_loop_t *loop, int *done_count) {
    struct owner *owner = calloc(1, sizeof *owner);
    cr_assert_not_null(owner);
    owner->done_count = done_count;
    cr_assert_eq(uv_timer_init(loop, &owner->timer), 0);
    cr_assert_eq(uv_pipe_init(loop, &owner->pipe, 0), 0);
    cr_assert_eq(uv_async_init(loop, &owner->async, on_async), 0);
    return owner;
}

/* The owner goes at once: the sanitizer reports every later touch. */
static void free_owner(void *context) {
    struct owner *owner = context;
    ++*owner->done_count;
    free(owner);
}

Test(close_group, done_comes_once_from_the_loop_after_all_handles) {
    uv_loop_t loop;
    int done_count = 0;
    cr_assert_eq(uv_loop_init(&loop), 0);
    struct owner *owner = owner_create(&loop, &done_count);
    close_group_begin(&owner->closing, free_owner, owner);
    close_group_add(&owner->closing, (uv_handle_t *)&owner->timer);
    close_group_add(&owner->closing, (uv_handle_t *)&owner->pipe);
    close_group_add(&owner->closing, (uv_handle_t *)&owner->async);
    close_group_end(&owner->closing);
    cr_expect_eq(done_count, 0, "before the loop ran");
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_expect_eq(done_count, 1);
    cr_expect_eq(uv_loop_close(&loop), 0, "a handle is left");
}

Test(close_group, a_handle_may_be_added_twice) {
    uv_loop_t loop;
    int done_count = 0;
    cr_assert_eq(uv_loop_init(&loop), 0);
    struct owner *owner = owner_create(&loop, &done_count);
    close_group_begin(&owner->closing, free_owner, owner);
    for (int i = 0; i < 2; i++) {
        close_group_add(&owner->closing, (uv_handle_t *)&owner->timer);
        close_group_add(&owner->closing, (uv_handle_t *)&owner->pipe);
        close_group_add(&owner->closing, (uv_handle_t *)&owner->async);
    }
    close_group_end(&owner->closing);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_expect_eq(done_count, 1);
    cr_expect_eq(uv_loop_close(&loop), 0);
}

Test(close_group, handles_that_closed_turns_ago_do_not_finish_an_open_group) {
    uv_loop_t loop;
    int done_count = 0;
    cr_assert_eq(uv_loop_init(&loop), 0);
    struct owner *owner = owner_create(&loop, &done_count);
    close_group_begin(&owner->closing, free_owner, owner);
    close_group_add(&owner->closing, (uv_handle_t *)&owner->pipe);
    uv_run(&loop, UV_RUN_NOWAIT);
    cr_expect_eq(done_count, 0);
    close_group_add(&owner->closing, (uv_handle_t *)&owner->pipe);
    close_group_add(&owner->closing, (uv_handle_t *)&owner->timer);
    close_group_add(&owner->closing, (uv_handle_t *)&owner->async);
    close_group_end(&owner->closing);
    cr_expect_eq(done_count, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_expect_eq(done_count, 1);
    cr_expect_eq(uv_loop_close(&loop), 0);
}

Test(close_group, two_groups_do_not_mix) {
    uv_loop_t loop;
    int done_count = 0;
    cr_assert_eq(uv_loop_init(&loop), 0);
    for (int i = 0; i < 2; i++) {
        struct owner *owner = owner_create(&loop, &done_count);
        close_group_begin(&owner->closing, free_owner, owner);
        close_group_add(&owner->closing, (uv_handle_t *)&owner->timer);
        close_group_add(&owner->closing, (uv_handle_t *)&owner->pipe);
        close_group_add(&owner->closing, (uv_handle_t *)&owner->async);
        close_group_end(&owner->closing);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_expect_eq(done_count, 2);
    cr_expect_eq(uv_loop_close(&loop), 0);
}

static void ignore(void *context) {
    (void)context;
}

static void an_empty_group_is_a_fault_call(void) {
    struct close_group group;
    close_group_begin(&group, ignore, NULL);
    close_group_end(&group);
}

Test(close_group, an_empty_group_is_a_fault) {
    expect_abort(an_empty_group_is_a_fault_call, "group->open > 0");
}

static void a_handle_that_somebody_else_closed_is_a_fault_call(void) {
    uv_loop_t loop;
    uv_timer_t timer;
    struct close_group group;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(uv_timer_init(&loop, &timer), 0);
    timer.data = NULL;
    uv_close((uv_handle_t *)&timer, NULL);
    close_group_begin(&group, ignore, NULL);
    close_group_add(&group, (uv_handle_t *)&timer);
}

Test(close_group, a_handle_that_somebody_else_closed_is_a_fault) {
    expect_abort(a_handle_that_somebody_else_closed_is_a_fault_call, "handle->data == group");
}
