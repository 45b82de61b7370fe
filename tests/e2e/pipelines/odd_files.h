/* odd_files.h - what a folder holds beside documents (C75), and what is to become of it. */
#ifndef PIPELINES_ODD_FILES_H
#define PIPELINES_ODD_FILES_H

/* $ROOT/files with: empty, cut (only as a PDF: it has no end), folder, pipe, loop and dangling (links), sparse (5 GB),
 * all with this ending. */
void odd_files_make(const char *ending);
/* Each of them, and "gone" (submitted, and not there), has failed at the first attempt, kind permanent, with its
 * reason. */
void odd_files_failed(const char *ending);

#endif
