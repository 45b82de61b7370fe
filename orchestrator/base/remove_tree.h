/* remove_tree.h - removes what is in a folder, whoever filled it.
 *
 * Made for folders that a document's program could fill: links are removed and never followed, folders without permissions
 * are opened up first, no depth and no number of files needs more than a few descriptors and a little memory, and another
 * file system that was mounted inside is left alone. Thread rule: any thread; blocking.
 */
#ifndef BASE_REMOVE_TREE_H
#define BASE_REMOVE_TREE_H

#include <stdbool.h>

#include "base/error.h"

/* Whether an entry of the emptied folder itself is to stay. */
typedef bool remove_tree_keep(void *context, const char *name);

/* Empties the folder NAME of the folder `at` (AT_FDCWD). `keep` NULL: all goes. Errors: NOT_FOUND there is no such folder
 * (a link is none), INVALID something could not be removed: the first reason; the rest went all the same. */
enum status remove_tree_empty(int at, const char *name, remove_tree_keep *keep, void *context, struct error *err) MUST_CHECK;

/* The folder as well. One that is not there is OK. */
enum status remove_tree(int at, const char *name, struct error *err) MUST_CHECK;

/* Whatever has that name: a file, a link, or a folder with all that is in it. Costs a system call when nothing has. */
enum status remove_any(int at, const char *name, struct error *err) MUST_CHECK;

#endif
