/* Allocates and frees a third of the time, which is all that it does, and loses a kilobyte every millisecond. */
#include <stdlib.h>
#include <time.h>

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

__attribute__((noinline)) static void lose_page(void) {
    volatile char *page = malloc(1024);
    for (int at = 0; at < 1024; at += 64) page[at] = 1;
}

__attribute__((noinline)) static void pair(int bytes) {
    volatile char *block = malloc(bytes);
    block[0] = 1;
    free((void *)block);
}

int main(int argc, char **argv) {
    long end = now_ms() + 1000 * (argc > 1 ? atol(argv[1]) : 10), last = now_ms();
    struct timespec rest = {0, 200000};
    for (;;) {
        nanosleep(&rest, 0);
        for (int pairs = 0; pairs < 2000; pairs++) pair(16 + pairs % 64);
        long now = now_ms();
        for (; last < now; last++) lose_page();
        if (now > end) return 7;
    }
}
