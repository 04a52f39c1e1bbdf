/* Pairs of threads that hand a word to each other through a futex: many switches, to measure what watching them costs.
 * argv: SECONDS PAIRS GAP_US. Prints the switches a second and the median of a round in nanoseconds. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 1 << 18 };
struct pair {
    atomic_int turn;
    uint32_t rounds_ns[ROUNDS];
    atomic_long count;
};
static long gap_us;
static atomic_long switches;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *side(void *arg) {
    struct pair *p = (void *)((uintptr_t)arg & ~(uintptr_t)1);
    int me = (int)((uintptr_t)arg & 1);
    for (uint64_t before = now_ns();;) {
        while (atomic_load(&p->turn) != me)
            syscall(SYS_futex, &p->turn, FUTEX_WAIT_PRIVATE, !me, NULL, NULL, 0);
        uint64_t now = now_ns();
        if (!me) p->rounds_ns[atomic_fetch_add(&p->count, 1) % ROUNDS] = (uint32_t)(now - before);
        before = now;
        while (now_ns() - now < (uint64_t)gap_us * 1000) {}
        atomic_store(&p->turn, !me);
        syscall(SYS_futex, &p->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        atomic_fetch_add(&switches, 1);
    }
    return NULL;
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    double seconds = atof(argv[1]);
    int pairs = atoi(argv[2]);
    gap_us = atol(argv[3]);
    pthread_t t;
    struct pair *first = NULL;
    for (int i = 0; i < pairs; i++) {
        struct pair *p = aligned_alloc(64, (sizeof *p + 63) / 64 * 64);
        atomic_init(&p->turn, 0);
        atomic_init(&p->count, 0);
        if (!first) first = p;
        pthread_create(&t, NULL, side, p);
        pthread_create(&t, NULL, side, (void *)((uintptr_t)p | 1));
    }
    usleep((useconds_t)(seconds * 1e6));
    long total = atomic_load(&switches), count = atomic_load(&first->count);
    size_t kept = count < ROUNDS ? (size_t)count : ROUNDS;
    if (kept == 0) return 1;
    qsort(first->rounds_ns, kept, sizeof *first->rounds_ns, by_size);
    printf("%.0f %u\n", (double)total / seconds, first->rounds_ns[kept / 2]);
    return 0;
}
