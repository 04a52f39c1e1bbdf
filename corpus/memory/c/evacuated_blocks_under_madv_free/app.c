// A script engine with its own heap, reserved once and allocated from upwards. Mode block_by_block: an evacuated
// block of 128 KB goes to the kernel by MADV_FREE and is not used again soon. Mode all_at_once: after 5 s, 160 MB go
// to the kernel in this way.
#include "../common.h"
#include <sys/mman.h>

static void release_pool(char *pool, size_t size) {
    madvise(pool, size, MADV_NOHUGEPAGE);
    memset(pool, 1, size);
    madvise(pool, size, MADV_FREE);
}

int main(int argc, char **argv) {
    int all_at_once = argc > 1 && !strcmp(argv[1], "all_at_once");
    size_t n = 4ul << 30, at = 0, old = 0;
    char *space = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return 1;
    double t0 = now();
    ready();
    for (;;) {
        if (all_at_once) {
            if (!at && now() - t0 > 5)
                release_pool(space, at = 160 * MIB);
            serve_requests(60);
            nap(20);
            continue;
        }
        memset(space + at, 1, 128 << 10);
        at += 128 << 10;
        if (at - old > 24 << 20) {
            madvise(space + old, 128 << 10, MADV_FREE);
            old += 128 << 10;
        }
        serve_requests(130);
        nap(45);
    }
}
