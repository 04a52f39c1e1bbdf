// A service whose requests make 200 pairs of malloc and free each. RATE: requests a second, 0 for no limit; SECONDS.
// Prints: requests a second, and their latency in microseconds (median, 99 %, 99.9 %), from when each was due.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 200, KEPT = 1024, TIMED = 4000000 };
static void *kept[KEPT];
static unsigned seed = 1;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static unsigned dice(void) { return (seed = seed * 1664525u + 1013904223u) >> 8; }

__attribute__((noinline)) static void request(void) {
    for (int pair = 0; pair < PAIRS; pair++) {
        unsigned at = dice() % KEPT;
        free(kept[at]);
        kept[at] = malloc(16 + dice() % 500);
        memset(kept[at], 1, 16);
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **words) {
    if (count != 3) return 2;
    double rate = atof(words[1]), seconds = atof(words[2]);
    double *took = malloc(TIMED * sizeof *took);
    if (!took) return 1;
    memset(took, 0, TIMED * sizeof *took);
    long made = 0;
    double begin = now(), due = begin;
    while (now() - begin < seconds) {
        due = rate > 0 ? due + 1 / rate : now();
        double early = due - now();
        if (early > 0) usleep(early * 1e6);
        request();
        if (made < TIMED) took[made] = now() - due;
        made++;
    }
    double all = now() - begin;
    long timed = made < TIMED ? made : TIMED;
    qsort(took, timed, sizeof *took, ascending);
    printf("%.0f %.1f %.1f %.1f\n", made / all, took[timed / 2] * 1e6, took[(long)(timed * 0.99)] * 1e6,
           took[(long)(timed * 0.999)] * 1e6);
    return 0;
}
