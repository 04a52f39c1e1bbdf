/* Allocates and frees a third of the time, and fills a table by a block a millisecond. After thirteen seconds it frees
   four of five of them, and adds no more. */
#include <stdlib.h>
#include <time.h>

#define HELD 13000

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

__attribute__((noinline)) static volatile char *keep_page(void) {
    volatile char *page = malloc(1024);
    for (int at = 0; at < 1024; at += 64) page[at] = 1;
    return page;
}

__attribute__((noinline)) static void pair(int bytes) {
    volatile char *block = malloc(bytes);
    block[0] = 1;
    free((void *)block);
}

int main(int argc, char **argv) {
    static volatile char *held[HELD];
    long end = now_ms() + 1000 * (argc > 1 ? atol(argv[1]) : 10), last = now_ms();
    struct timespec rest = {0, 200000};
    for (int next = 0;;) {
        nanosleep(&rest, 0);
        for (int pairs = 0; pairs < 2000; pairs++) pair(16 + pairs % 64);
        long now = now_ms();
        for (; last < now && next < HELD; last++) held[next++] = keep_page();
        if (next == HELD) {
            for (int at = 0; at < HELD; at++) {
                if (at % 5 == 0) continue;
                free((void *)held[at]);
                held[at] = 0;
            }
            next++;
        }
        if (now > end) return 7;
    }
}
