#include "worker/memory_use.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* "total resident shared ...", in pages. */
int64_t memory_use_resident_bytes(pid_t pid) {
    char path[40], text[128];
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) {
        return 0;
    }
    text[got] = '\0';
    char *end;
    strtoll(text, &end, 10);
    return strtoll(end, NULL, 10) * sysconf(_SC_PAGESIZE);
}
