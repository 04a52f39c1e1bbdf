#pragma once
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
#define RUN_LIMIT 150.0
/* the program's own accounts, printed every 5 s when TRUTH is set: what it has lost and what it can still reach */
static volatile long lost_, live_;
static __thread uint64_t rs_ = 0;
static inline uint32_t rnd(void) {
    if (!rs_)
        rs_ = (uintptr_t)&rs_ * 2654435761u + 88172645463325252ull;
    rs_ ^= rs_ << 13;
    rs_ ^= rs_ >> 7;
    rs_ ^= rs_ << 17;
    return (uint32_t)(rs_ >> 16);
}
static inline uint32_t rng(uint32_t a, uint32_t b) {
    return a + rnd() % (b - a + 1);
}
static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static inline void nap(int ms) {
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&t, 0);
}
/* 0..1..0, a triangle of the given period in seconds */
static inline double swing(double t, double period) {
    double x = t / period;
    x -= (long)x;
    return x < 0.5 ? 2 * x : 2 - 2 * x;
}
static void truth(void) {
    static int on = -1;
    static double t0, next;
    if (on < 0) {
        on = getenv("TRUTH") != 0;
        t0 = now();
    }
    if (!on || now() < next)
        return;
    next = now() + 5;
    long size = 0, rss = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f) {
        if (fscanf(f, "%ld %ld", &size, &rss) != 2)
            rss = -1;
        fclose(f);
    }
    struct mallinfo2 m = mallinfo2();
    fprintf(stderr, "TRUTH pid=%d t=%2.0f rss=%6ldK glibc_used=%6zuK lost=%6ldK live=%6ldK\n", getpid(), now() - t0, rss * 4,
            (m.uordblks + m.hblkhd) >> 10, lost_ >> 10, live_ >> 10);
}
