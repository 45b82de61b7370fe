/* trusted_file.h - whether a file of a pipeline may be loaded or started: nobody but those who may anyway could have changed it.
 *
 * Used by the commands that read a pipeline file, and by the worker just before it loads one. Thread rule: the thread that
 * may look up users (getpwuid); blocking.
 */
#ifndef BASE_TRUSTED_FILE_H
#define BASE_TRUSTED_FILE_H

#include "base/error.h"

/* The file must be a regular one (links are followed), and neither it nor the folder that it really lies in may be writable
 * by everybody, or by a group other than its owner's own (the group of the same name and without other members, as
 * distributions make one for each user) and root's. A folder with the sticky bit counts as the owner's.
 * `inside`: the file must really lie in that folder or below it; NULL: anywhere. Errors: NOT_FOUND it cannot be found,
 * INVALID it is not to be trusted, with a sentence that says why. */
enum status trusted_file_check(const char *path, const char *inside, struct error *err) MUST_CHECK;

#endif
