// What cannot be had must be refused.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    volatile size_t huge = SIZE_MAX, half = (size_t)1 << 63, two = 2;
    void *small = malloc(100);
    void *blocks[] = {malloc(huge), malloc(half), calloc(huge, two), calloc(half + 1, two),
                      realloc(small, huge)};
    const char *calls[] = {"malloc(SIZE_MAX)", "malloc(1 << 63)", "calloc(SIZE_MAX, 2)",
                           "calloc((1 << 63) + 1, 2)", "realloc(block, SIZE_MAX)"};
    int wrong = 0;
    for (int i = 0; i < 5; i++)
        if (blocks[i]) wrong = 1, printf("%s = %p, expected NULL\n", calls[i], blocks[i]);
    return wrong;
}
