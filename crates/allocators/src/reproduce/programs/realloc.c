// Contents survive realloc up to the smaller of the two sizes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ROUNDS
#define ROUNDS 6000
#endif

int main(void) {
    unsigned char *block = NULL;
    size_t size = 0;
    unsigned random = 1;
    for (int i = 0; i < ROUNDS; i++) {
        random = random * 1664525u + 1013904223u;
        size_t wanted = 1 + (random >> 8) % (i % 100 == 99 ? 4000000 : i % 3 ? 5000 : 200000);
        block = realloc(block, wanted);
        for (size_t at = 0; at < size && at < wanted; at++)
            if (block[at] != (unsigned char)(at * 7)) {
                printf("realloc from %zu to %zu bytes: byte %zu is lost\n", size, wanted, at);
                return 1;
            }
        size = wanted;
        for (size_t at = 0; at < size; at++) block[at] = (unsigned char)(at * 7);
    }
    return 0;
}
