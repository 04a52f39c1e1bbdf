// Allocates and frees for so many seconds; says "done" and ends with 7.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words) {
    double end = now() + atof(count > 1 ? words[1] : "1");
    while (now() < end) {
        for (int i = 0; i < 1000; i++) {
            void *volatile block = malloc(64 + i % 64);
            free(block);
        }
        struct timespec rest = {0, 5000000};
        nanosleep(&rest, NULL);
    }
    puts("done");
    return 7;
}
