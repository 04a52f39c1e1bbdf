/* Two heaps: one of its own, with the names that mimalloc gives its functions, and the C library's, on which each round
 * loses a block. Says "ready", then what it did when it is told to end: the same whether it is watched or not. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 4096

static char arena[256 * BLOCK];
static void *freed[256];
static int used, kept;

__attribute__((noinline)) void *mi_malloc(size_t bytes) {
    (void)bytes;
    return kept ? freed[--kept] : arena + BLOCK * used++;
}

__attribute__((noinline)) void mi_free(void *block) { freed[kept++] = block; }

static void *volatile held[100];
static void *volatile last;

__attribute__((noinline)) static void lose_record(int round) {
    char *record = malloc(4001);
    memset(record, round, 4001);
    last = record;
}

int main(void) {
    struct pollfd order = {.fd = 0, .events = POLLIN};
    uint64_t sum = 0, rounds = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    for (; poll(&order, 1, 5) == 0; rounds++) {
        int at = rounds % 100;
        if (held[at]) mi_free(held[at]);
        held[at] = mi_malloc(100);
        memset(held[at], 1, 100);
        lose_record((int)rounds);
        sum += *(unsigned char *)held[at];
    }
    printf("%d\n", sum == rounds && used == 100);
    return 7;
}
