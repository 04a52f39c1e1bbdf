/* For 24 seconds: a third of the time it allocates and frees, and every millisecond it allocates a kilobyte more.
   `lose`: nobody keeps that. `free`: a table does, until it is full after thirteen seconds; then four of five are freed,
   and none comes any more. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HELD 13000
#define SECONDS 24

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

__attribute__((noinline)) static volatile char *new_page(void) {
    volatile char *page = malloc(1024);
    for (int at = 0; at < 1024; at += 64) page[at] = 1;
    return page;
}

__attribute__((noinline)) static void pair(int bytes) {
    volatile char *block = malloc(bytes);
    block[0] = 1;
    free((void *)block);
}

int main(int count, char **words) {
    static volatile char *held[HELD];
    int keeps = count > 1 && strcmp(words[1], "free") == 0, next = 0;
    long begin = now_ms(), last = begin;
    struct timespec rest = {0, 200000};
    for (;;) {
        nanosleep(&rest, 0);
        for (int pairs = 0; pairs < 2000; pairs++) pair(16 + pairs % 64);
        long now = now_ms();
        for (; last < now && next < HELD; last++) {
            volatile char *page = new_page();
            if (keeps) held[next++] = page;
        }
        if (next == HELD) {
            for (int at = 0; at < HELD; at++) {
                if (at % 5 == 0) continue;
                free((void *)held[at]);
                held[at] = 0;
            }
            next++;
        }
        if (now > begin + 1000 * SECONDS) return 7;
    }
}
