#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
#define RUN_LIMIT 150.0
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
