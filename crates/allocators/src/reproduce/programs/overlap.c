// Each live block is filled with its own byte; none may change another.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ROUNDS
#define ROUNDS 4000
#endif

static unsigned char *live[ROUNDS];
static size_t sizes[ROUNDS];
static unsigned state = 1;

static size_t below(size_t limit) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % limit;
}

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        for (int passing = 0; passing < 8; passing++) free(malloc(1 + below(2000)));
        sizes[i] = 1 + below(2000);
        live[i] = below(2) ? memalign((size_t)256 << below(5), sizes[i]) : malloc(sizes[i]);
        memset(live[i], i, sizes[i]);
        if (below(3) == 0) {
            size_t gone = below(i + 1);
            free(live[gone]);
            live[gone] = malloc(sizes[gone]);
            memset(live[gone], (int)gone, sizes[gone]);
        }
    }
    for (int i = 0; i < ROUNDS; i++)
        for (size_t at = 0; at < sizes[i]; at++)
            if (live[i][at] != (unsigned char)i) {
                printf("block %d of %zu bytes at %p: byte %zu was written through another block\n", i,
                       sizes[i], (void *)live[i], at);
                return 1;
            }
    return 0;
}
