// Blocks that grow and shrink from bytes to tens of megabytes, in place and moved, with their contents checked; aligned
// blocks; and all of every block's usable size written over.
#include "truth.h"
#include <stdint.h>

static void fill(unsigned char *block, size_t bytes, unsigned char value) { memset(block, value, bytes); }

int main(void) {
    mark();
    unsigned char *block = took(malloc(1));
    size_t bytes = 1;
    uint64_t dice = 42;
    for (int round = 0; round < 20000; round++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        size_t wanted = 1 + (dice >> 40) % (round % 100 == 0 ? 40000000 : 40000);
        block[bytes - 1] = 0x5a;
        block[0] = 0xa5;
        gives(block);
        block = took(realloc(block, wanted));
        MUST(block);
        size_t common = wanted < bytes ? wanted : bytes;
        if (common > 1) MUST(block[0] == 0xa5);
        if (common == bytes && bytes > 1) MUST(block[bytes - 1] == 0x5a);
        bytes = wanted;
    }
    static void *kept[3000];
    for (int at = 0; at < 3000; at++) {
        size_t align = (size_t)16 << at % 9;
        kept[at] = took(aligned_alloc(align, align * (1 + at % 7)));
        MUST(kept[at] && (uintptr_t)kept[at] % align == 0);
        fill(kept[at], malloc_usable_size(kept[at]), at);
    }
    for (int at = 0; at < 3000; at += 2) free(gives(kept[at]));
    free(gives(block));
    mark();
    return 0;
}
