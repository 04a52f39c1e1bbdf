// Allocates and frees without a pause for so many seconds; prints a sum of what it read and ends with 7.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words) {
    double end = now() + atof(count > 1 ? words[1] : "1");
    uint64_t wrong = 0;
    while (now() < end) {
        for (int i = 0; i < 100000; i++) {
            unsigned char *volatile block = malloc(64);
            memset(block, i, 64);
            wrong += block[i % 64] != (unsigned char)i;
            free(block);
        }
    }
    printf("done, %llu wrong\n", (unsigned long long)wrong);
    return 7;
}
