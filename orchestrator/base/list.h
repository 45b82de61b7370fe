/* list.h - intrusive doubly linked list; the head is a node that points at itself when empty. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

#define LIST_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
#define LIST_EACH(node, head) for (struct list *node = (head)->next; node != (head); node = node->next)
/* Safe when the body removes `node`. */
#define LIST_EACH_SAFE(node, after, head)                                                          \
    for (struct list *node = (head)->next, *after = node->next; node != (head);                    \
         node = after, after = node->next)

static inline void list_init(struct list *head) {
    head->next = head->prev = head;
}

static inline bool list_is_empty(const struct list *head) {
    return head->next == head;
}

static inline void list_append(struct list *head, struct list *node) {
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_prepend(struct list *head, struct list *node) {
    list_append(head->next, node);
}

/* Removing a node that is in no list (initialised, or removed before) is a no-op. */
static inline void list_remove(struct list *node) {
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = node;
}

#endif
