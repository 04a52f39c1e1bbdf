// A zeroed block is zero, also where a freed block was written to before.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ROUNDS
#define ROUNDS 4000
#endif

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = 1 + (size_t)i * 67 % 60000;
        char *dirty = malloc(size);
        memset(dirty, 0xA5, size);
        free(dirty);
        unsigned char *clean = calloc(size, 1);
        for (size_t at = 0; at < size; at++)
            if (clean[at]) {
                printf("calloc(%zu, 1): byte %zu is %#x\n", size, at, clean[at]);
                return 1;
            }
        if (i % 2) free(clean);
    }
    return 0;
}
