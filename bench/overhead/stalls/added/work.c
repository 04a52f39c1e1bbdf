/* Work whose CPU time a watch adds to: "calls" of a function, or "switches" of two threads that send a byte to and fro.
 * Rests for three seconds first, so that the watch has begun. Prints its CPU time in nanoseconds. argv: WAY NUMBER. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];
static long number;
static volatile uint64_t sink;

__attribute__((noinline)) uint64_t serve(uint64_t by) {
    sink += by;
    return sink;
}

static void *answer(void *none) {
    char byte;
    for (long i = 0; i < number; i++)
        if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
            abort();
    return none;
}

static void switches(void) {
    pthread_t other;
    char byte = 0;
    if (pipe(there) || pipe(back) || pthread_create(&other, NULL, answer, NULL))
        abort();
    sleep(1);
    for (long i = 0; i < number; i++)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            abort();
    pthread_join(other, NULL);
}

int main(int count, char **words) {
    if (count < 3)
        return 2;
    number = atol(words[2]);
    sleep(3);
    if (!strcmp(words[1], "calls"))
        for (long i = 0; i < number; i++)
            serve((uint64_t)i);
    else
        switches();
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    fprintf(stderr, "%lld\n", cpu.tv_sec * 1000000000LL + cpu.tv_nsec);
    return 0;
}
