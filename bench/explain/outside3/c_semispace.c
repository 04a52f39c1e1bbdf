// script engine with its own heap: reserved once, allocated from upwards; a block of 128 KB that was evacuated is handed to the kernel with
// MADV_FREE and not used again soon
#define _GNU_SOURCE
#include "work.h"
#include <sys/mman.h>
int main(void) {
    size_t n = 4ul << 30, at = 0, old = 0;
    char *space = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return 1;
    double t0 = now();
    while (now() - t0 < RUN_LIMIT) {
        memset(space + at, 1, 128 << 10);
        at += 128 << 10;
        if (at - old > 24 << 20) {
            madvise(space + old, 128 << 10, MADV_FREE);
            old += 128 << 10;
        }
        live_ = at - old;
        bystanders(130);
        truth();
        nap(45);
    }
    return 0;
}
