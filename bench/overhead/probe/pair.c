// CPU nanoseconds per malloc and free, one thread: freed at once (lifo), and in random order over 32,768 live blocks.
// Prints "lifo_ns random_ns": the best of ROUNDS rounds of each, since everything but the program itself only adds.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LIVE = 32768, PAIRS = 2000000, ROUNDS = 9 };

static void *live[LIVE];
static uint32_t sizes[LIVE];

static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static uint64_t state = 88172645463325252ull;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double lifo(void) {
    double begun = cpu_ns();
    for (int pair = 0; pair < PAIRS; pair++) {
        void *volatile block = malloc(sizes[pair % LIVE]);
        free(block);
    }
    return (cpu_ns() - begun) / PAIRS;
}

static double random_order(void) {
    double begun = cpu_ns();
    for (int pair = 0; pair < PAIRS; pair++) {
        uint64_t dice = next();
        uint32_t at = dice % LIVE;
        free(live[at]);
        live[at] = malloc(sizes[dice >> 32 & (LIVE - 1)]);
    }
    return (cpu_ns() - begun) / PAIRS;
}

int main(void) {
    for (int at = 0; at < LIVE; at++) {
        sizes[at] = 16 + next() % 241;
        live[at] = malloc(sizes[at]);
    }
    double best_lifo = 1e9, best_random = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double ns = lifo();
        if (ns < best_lifo) best_lifo = ns;
        ns = random_order();
        if (ns < best_random) best_random = ns;
    }
    printf("%.3f %.3f\n", best_lifo, best_random);
    return 0;
}
