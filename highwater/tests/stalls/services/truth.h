/* What every service of these tests shares: a clock, work on the CPU, and the log that is the truth.
 * A line of the log is one stalled request: "stall THREAD START_NS END_NS"; or, from services that time the wait itself, one
 * wait for the lock: "wait THREAD START_NS END_NS". */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static FILE *truth;
static volatile uint64_t sink;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_us(long us) {
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

__attribute__((noinline)) static void work_us(uint64_t us) {
    for (uint64_t end = now_ns() + us * 1000; now_ns() < end;)
        for (int i = 0; i < 1000; i++) sink += (uint64_t)i;
}

/* Requests over `least_ns` are the stalls that a tool has to find. */
static void told(int thread, uint64_t start, uint64_t least_ns) {
    uint64_t end = now_ns();
    if (end - start >= least_ns) {
        fprintf(truth, "stall %d %llu %llu\n", thread, (unsigned long long)start,
                (unsigned long long)end);
        fflush(truth);
    }
}

/* The same of a wait for a lock that ends now. */
__attribute__((unused)) static void waited(int thread, uint64_t start) {
    uint64_t end = now_ns();
    if (end - start < 1000000) return;
    fprintf(truth, "wait %d %llu %llu\n", thread, (unsigned long long)start, (unsigned long long)end);
    fflush(truth);
}

/* argv: the truth's file, seconds to live, then what the service wants. */
static double opened(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s TRUTH SECONDS [FLAG...]\n", argv[0]);
        exit(2);
    }
    truth = fopen(argv[1], "w");
    if (!truth) {
        perror(argv[1]);
        exit(4);
    }
    return atof(argv[2]);
}

static int flagged(int argc, char **argv, const char *flag) {
    for (int i = 3; i < argc; i++)
        if (!strcmp(argv[i], flag)) return 1;
    return 0;
}
