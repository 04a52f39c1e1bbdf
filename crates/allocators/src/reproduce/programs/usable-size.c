// A block's usable size is at least what was asked for, and all of it may be written.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ROUNDS
#define ROUNDS 4000
#endif

static unsigned char *live[ROUNDS];

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = 1 + (size_t)i * 37 % 5000;
        live[i] = malloc(size);
        size_t usable = malloc_usable_size(live[i]);
        if (usable < size) {
            printf("malloc(%zu) has a usable size of %zu\n", size, usable);
            return 1;
        }
        memset(live[i], i, usable);
    }
    for (int i = 0; i < ROUNDS; i++) {
        size_t usable = malloc_usable_size(live[i]);
        for (size_t at = 0; at < usable; at++)
            if (live[i][at] != (unsigned char)i) {
                printf("block %d: byte %zu of %zu usable was written through another block\n", i, at,
                       usable);
                return 1;
            }
    }
    for (int i = 0; i < ROUNDS; i++) free(live[i]);
    return 0;
}
