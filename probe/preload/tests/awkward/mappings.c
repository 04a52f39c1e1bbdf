// Mappings made by hand: taken, cut in the middle, grown, replaced, and given back.
#define _GNU_SOURCE
#include "truth.h"
#include <sys/mman.h>

static char *map(size_t bytes) {
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(start != MAP_FAILED);
    return start;
}

int main(void) {
    size_t mebi = 1 << 20;
    mark();
    char *kept = map(64 * mebi);
    MUST(munmap(kept + 16 * mebi, 16 * mebi) == 0);
    char *grown = mremap(map(8 * mebi), 8 * mebi, 24 * mebi, MREMAP_MAYMOVE);
    MUST(grown != MAP_FAILED);
    MUST(mmap(kept, mebi, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == kept);
    for (int round = 0; round < 2000; round++) MUST(munmap(map(128 << 10), 128 << 10) == 0);
    char *moved = sbrk(mebi);
    MUST(moved != (void *)-1 && sbrk(-(long)mebi) != (void *)-1);
    // What the test expects to stand: 48 MiB in two parts (one of them with a hole of no access), 24 MiB moved.
    truth_bytes = 72 * mebi;
    mark();
    return 0;
}
