/* A library that the probe opens while it runs. */
#include <stdlib.h>
#include <string.h>

static __thread char own[2000];

unsigned char *give(size_t size) {
    own[0]++;
    unsigned char *block = malloc(size);
    if (block) memset(block, 3, size);
    return block;
}

int take(unsigned char *block, size_t size) {
    int changed = 0;
    for (size_t i = 0; i < size; i++) changed += block[i] != 7;
    free(block);
    return changed;
}
