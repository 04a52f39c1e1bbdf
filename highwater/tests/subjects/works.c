// A service that works: every tenth of a second 4 ms of CPU, and a heap that grows by a fixed number of KiB a second
// (0: it stands still).
//   works START_KIB KIB_PER_SECOND LIFE_SECONDS
#include <time.h>
#include <unistd.h>

#include "eats.h"

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    long per_second = atol(argv[2]), eaten = 0;
    eat(atol(argv[1]));
    double begun = now(CLOCK_MONOTONIC), life = atof(argv[3]);
    for (;;) {
        double passed = now(CLOCK_MONOTONIC) - begun;
        if (passed > life) return 0;
        long due = (long)(passed * per_second);
        eat(due - eaten);
        eaten = due > eaten ? due : eaten;
        double until = now(CLOCK_PROCESS_CPUTIME_ID) + 0.004;
        while (now(CLOCK_PROCESS_CPUTIME_ID) < until) {}
        usleep(100000);
    }
}
