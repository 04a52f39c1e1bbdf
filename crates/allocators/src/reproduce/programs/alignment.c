// Aligned blocks must lie where they were asked to.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef ROUNDS
#define ROUNDS 400000
#endif

static void *live[512];

int main(void) {
    unsigned random = 1;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525u + 1013904223u;
        void **slot = &live[(random >> 16) % 512];
        size_t alignment = (size_t)16 << (random >> 8) % 13;
        size_t size = alignment * (1 + (random >> 12) % 4);
        free(*slot);
        *slot = aligned_alloc(alignment, size);
        if ((uintptr_t)*slot % alignment) {
            printf("call %d: aligned_alloc(%zu, %zu) = %p\n", i + 1, alignment, size, *slot);
            return 1;
        }
    }
    return 0;
}
