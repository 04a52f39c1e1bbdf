// twenty-four parsers, started at the beginning; the documents nest deeper and deeper, so every stack is touched further down
#include "work.h"
#include <pthread.h>
static volatile int depth = 20;
NOINLINE int element(int level, unsigned seed) {
    volatile char text[1200];
    for (int i = 0; i < 1200; i += 400)
        text[i] = seed;
    if (level <= 0)
        return text[0];
    return element(level - 1, seed * 31 + 7) + text[400];
}
static void *parser(void *a) {
    double t0 = now();
    unsigned n = 0;
    while (now() - t0 < RUN_LIMIT) {
        n += element(depth, n);
        bystanders(30);
        nap(60);
    }
    return (void *)(uintptr_t)n;
}
int main(void) {
    pthread_t t[24];
    for (int i = 0; i < 24; i++)
        pthread_create(&t[i], 0, parser, 0);
    for (int i = 0; i < 1500; i++) {
        depth = 20 + i * 4000 / 1500;
        truth();
        nap(100);
    }
    for (int i = 0; i < 24; i++)
        pthread_join(t[i], 0);
    return 0;
}
