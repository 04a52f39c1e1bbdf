/* A program that loses blocks, for trying an installed highwater: explain must name lose_a_block. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static void lose_a_block(size_t bytes) {
    void *block = malloc(bytes);
    if (block != NULL) {
        memset(block, 1, bytes);
    }
    /* A compiler must not see that nobody reads it. */
    __asm__ volatile("" : : "r"(block) : "memory");
}

int main(int count, char **words) {
    int seconds = count > 1 ? atoi(words[1]) : 20;
    for (int step = 0; step < seconds * 100; step++) {
        for (int call = 0; call < 40; call++) {
            free(malloc((size_t)(100 + call)));
        }
        lose_a_block(3000);
        usleep(10000);
    }
    puts("done");
    return 7;
}
