/* Pairs of malloc and free, so many, of 64 to 1,087 bytes: freed at once ("once"), or at random among 32,768 live ones
 * ("random"). Prints its CPU time in nanoseconds a pair. argv: WAY PAIRS. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIVE = 32768 };
static void *live[LIVE];
static uint64_t state = 88172645463325252u;

static uint64_t drawn(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

int main(int count, char **words) {
    if (count < 3)
        return 2;
    int at_once = !strcmp(words[1], "once");
    long pairs = atol(words[2]);
    for (long i = 0; i < pairs; i++) {
        uint64_t number = drawn();
        void *volatile block = malloc(64 + (number >> 32) % 1024);
        if (at_once) {
            free(block);
        } else {
            free(live[number % LIVE]);
            live[number % LIVE] = block;
        }
    }
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    printf("%.3f\n", (cpu.tv_sec * 1e9 + cpu.tv_nsec) / (double)pairs);
    return 0;
}
