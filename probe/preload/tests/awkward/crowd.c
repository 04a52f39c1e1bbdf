// As many threads at once as the first argument says, each holding twenty blocks: more than the probe has rows for.
#include "truth.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static long ready;

static void *work(void *argument) {
    (void)argument;
    void *kept[20];
    for (int at = 0; at < 20; at++) kept[at] = took(malloc(1000));
    for (int round = 0; round < 50; round++) {
        void *volatile block = malloc(100 + round);
        free(block);
    }
    __atomic_fetch_add(&ready, 1, __ATOMIC_RELEASE);
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    for (int at = 0; at < 20; at++) free(gives(kept[at]));
    return NULL;
}

int main(int argc, char **argv) {
    long wanted = argc > 1 ? atol(argv[1]) : 1000, made = 0;
    pthread_t *threads = malloc(wanted * sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_mutex_lock(&gate);
    mark();
    for (; made < wanted; made++) {
        if (pthread_create(&threads[made], &small, work, NULL) != 0) break;
    }
    while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < made) usleep(1000);
    mark();
    dprintf(2, "%ld threads at once\n", made);
    pthread_mutex_unlock(&gate);
    for (long at = 0; at < made; at++) pthread_join(threads[at], NULL);
    mark();
    return 0;
}
