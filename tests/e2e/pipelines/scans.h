/* scans.h - PDFs as scanners and attackers make them. Made when the test runs: no binary stands in the repository. */
#ifndef PIPELINES_SCANS_H
#define PIPELINES_SCANS_H

/* Pages that are pictures of these texts, and hold no text; ends with NULL. Drawn with pdftoppm. */
void scan_make(const char *path, const char *const *pages);

/* Poppler dies of SIGSEGV when it draws the page: it is filled with a pattern that is filled with a pattern, and so
 * on, so deep that the stack is full. */
void crasher_make(const char *path);

/* Twenty kilobytes that become ten gigabytes: run lengths of run lengths, for a picture of 100,000 x 100,000. */
void bomb_make(const char *path);

/* A page that no memory is enough for. */
void giant_make(const char *path);

#endif
