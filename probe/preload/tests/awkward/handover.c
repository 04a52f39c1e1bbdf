// Threads of one kind allocate, threads of another free; one buffer grows a little at a time all the while.
#include "truth.h"
#include <pthread.h>

enum { ROUNDS = 400, EACH = 500, BYTES = 700 };

static void *handed[EACH];
static pthread_barrier_t both;
char *grown;

__attribute__((noinline)) void grow(size_t bytes) {
    grown = realloc(grown, bytes);
    MUST(grown);
    grown[bytes - 1] = 1;
}

static void *produce(void *unused) {
    pthread_setname_np(pthread_self(), "producer");
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = 0; at < EACH; at++) {
            handed[at] = malloc(BYTES);
            MUST(handed[at]);
        }
        pthread_barrier_wait(&both);
        pthread_barrier_wait(&both);
    }
    return unused;
}

static void *consume(void *unused) {
    pthread_setname_np(pthread_self(), "consumer");
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&both);
        for (int at = 0; at < EACH; at++) free(handed[at]);
        pthread_barrier_wait(&both);
    }
    return unused;
}

int main(void) {
    pthread_t threads[2];
    MUST(pthread_barrier_init(&both, NULL, 2) == 0);
    mark();
    MUST(pthread_create(&threads[0], NULL, produce, NULL) == 0);
    MUST(pthread_create(&threads[1], NULL, consume, NULL) == 0);
    for (size_t bytes = 1 << 16; bytes < 12u << 20; bytes += 4096) grow(bytes);
    MUST(pthread_join(threads[0], NULL) == 0 && pthread_join(threads[1], NULL) == 0);
    mark();
    return 0;
}
