/* greedy.c - takes all memory that it can get, writes to it, and aborts. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(void) {
    for (size_t bytes = 16u << 20; bytes >= 4096; bytes /= 2) {
        void *memory;
        while ((memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED) {
            memset(memory, 1, bytes);
        }
    }
    abort();
}
