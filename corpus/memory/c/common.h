// Shared by the C and C++ cases: a fixed random sequence, the clock, the end after 120 s, and ordinary requests.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define MIB (1ul << 20)

// Each thread has a sequence of its own, the same in every run that starts its threads in the same order.
static inline uint32_t rnd(void) {
    static unsigned threads;
    static __thread uint64_t state;
    if (!state)
        state = 88172645463325252ull + __sync_add_and_fetch(&threads, 1) * 0x9e3779b97f4a7c15ull;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static inline uint32_t rng(uint32_t low, uint32_t high) {
    return low + rnd() % (high - low + 1);
}

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static inline void nap(int ms) {
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    while (nanosleep(&t, &t))
        ;
}

// 0..1..0, a triangle of the given period in seconds.
static inline double swing(double t, double period) {
    double x = t / period;
    x -= (long)x;
    return x < 0.5 ? 2 * x : 2 - 2 * x;
}

// Keeps the compiler from leaving out a block that nothing reads.
static inline void use(const volatile void *block) {
    __asm__ volatile("" : : "r"(block) : "memory");
}

static inline void end_of_run(int number) {
    _exit(number == SIGALRM ? 0 : 1);
}

// Says that the program is set up; it ends by itself 120 s later.
static inline void ready(void) {
    signal(SIGALRM, end_of_run);
    alarm(120);
    puts("ready");
    fflush(stdout);
}

// For a child process: it ends with its parent.
static inline void end_with_parent(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

// n short-lived blocks of mixed sizes, each replaced some hundreds of calls later.
__attribute__((unused)) static NOINLINE void serve_requests(int n) {
    static __thread char *slot[800];
    while (n--) {
        unsigned i = rnd() % 800, size = rnd() % 9 ? rng(16, 400) : rng(400, 3000);
        free(slot[i]);
        slot[i] = (char *)malloc(size);
        memset(slot[i], n, size);
    }
}
