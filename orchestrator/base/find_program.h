/* find_program.h - which file a program's name, or an argument of it, stands for: in a stage, and in what tests one.
 *
 * Thread rule: any thread, as long as nobody changes the environment.
 */
#ifndef BASE_FIND_PROGRAM_H
#define BASE_FIND_PROGRAM_H

#include "base/error.h"

/* Where a program is: in `folder` (when there is one), or with a '/' relative to it; else in PATH. Ownership: the path is the
 * caller's to free. NOT_FOUND: it is not there; INVALID: it is not to be trusted (base/trusted_file.h). */
enum status find_program(const char *name, const char *folder, char **path, struct error *err) MUST_CHECK;

/* The path of a regular file of that name in the folder, to be freed; NULL when there is none. INVALID: it is not to be
 * trusted. */
enum status find_file_of(const char *name, const char *folder, char **path, struct error *err) MUST_CHECK;

#endif
