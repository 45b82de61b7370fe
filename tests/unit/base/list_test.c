#include "base/list.h"

#include <criterion/criterion.h>

TestSuite(list, .timeout = 10);

struct item {
    int value;
    struct list node;
};

static void expect_values(struct list *head, const int *values, int count) {
    int at = 0;
    LIST_EACH(node, head) {
        cr_assert_lt(at, count);
        cr_expect_eq(LIST_ENTRY(node, struct item, node)->value, values[at]);
        cr_expect_eq(node->next->prev, node);
        at++;
    }
    cr_expect_eq(at, count);
}

Test(list, keeps_order) {
    struct list head;
    struct item items[] = {{.value = 1}, {.value = 2}, {.value = 3}};
    list_init(&head);
    cr_expect(list_is_empty(&head));
    list_append(&head, &items[1].node);
    list_append(&head, &items[2].node);
    list_prepend(&head, &items[0].node);
    cr_expect_not(list_is_empty(&head));
    expect_values(&head, (const int[]){1, 2, 3}, 3);
    list_remove(&items[1].node);
    expect_values(&head, (const int[]){1, 3}, 2);
}

Test(list, removing_twice_is_a_no_op) {
    struct list head;
    struct item a = {.value = 1}, b = {.value = 2};
    list_init(&head);
    list_init(&b.node);
    list_remove(&b.node);
    list_append(&head, &a.node);
    list_append(&head, &b.node);
    list_remove(&a.node);
    list_remove(&a.node);
    expect_values(&head, (const int[]){2}, 1);
}

Test(list, each_safe_allows_removal) {
    struct list head;
    struct item items[5];
    list_init(&head);
    for (int i = 0; i < 5; i++) {
        items[i].value = i;
        list_append(&head, &items[i].node);
    }
    LIST_EACH_SAFE(node, after, &head) {
        if (LIST_ENTRY(node, struct item, node)->value % 2 == 0) {
            list_remove(node);
        }
    }
    expect_values(&head, (const int[]){1, 3}, 2);
    LIST_EACH_SAFE(node, after, &head) {
        list_remove(node);
    }
    cr_expect(list_is_empty(&head));
}
