// Allocates and frees at full speed for as many seconds as the first argument says, a growing heap beside it, or until SIGTERM; then
// marks.
#include "truth.h"
#include <signal.h>
#include <time.h>

static void *ring[4096];
static volatile sig_atomic_t told;

static void tell(int signal) {
    (void)signal;
    told = 1;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    signal(SIGTERM, tell);
    mark();
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    unsigned long round = 0;
    do {
        for (int each = 0; each < 10000; each++, round++) {
            unsigned at = round * 2654435761u % 4096;
            free(gives(ring[at]));
            ring[at] = took(malloc(16 + round % 2000));
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (!told && now.tv_sec - begun.tv_sec + (now.tv_nsec - begun.tv_nsec) / 1e9 < seconds);
    mark();
    return 0;
}
