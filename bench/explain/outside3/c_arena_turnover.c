// batch runner on glibc: every 4 s a new generation of short-lived threads, one more than before; they take turns, one job at a time, so
// that the live bytes stay what they were, while each further thread makes another arena, which a few kept results pin
#include "work.h"
#include <pthread.h>
enum { KEPT = 600, BLOCKS = 2600 };
static char *kept[KEPT];
static unsigned kept_n;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t together;
NOINLINE char *job_block(void) {
    size_t n = rng(1000, 5000);
    char *p = malloc(n);
    memset(p, 'j', n);
    return p;
}
static void *runner(void *a) {
    free(malloc(100));
    pthread_barrier_wait(&together);
    pthread_mutex_lock(&turn);
    char *b[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        b[i] = job_block();
        if (i % 100 == 0)
            nap(5);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (i % 200 == 199 || i == BLOCKS - 1) {
            free(kept[kept_n % KEPT]);
            kept[kept_n++ % KEPT] = b[i];
        } else
            free(b[i]);
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&together);
    return 0;
}
int main(void) {
    double t0 = now();
    for (int n = 1; now() - t0 < RUN_LIMIT; n++) {
        double began = now();
        int k = n < 15 ? n : 15;
        pthread_t t[16];
        pthread_barrier_init(&together, 0, k);
        for (int i = 0; i < k; i++)
            pthread_create(&t[i], 0, runner, 0);
        for (int i = 0; i < k; i++)
            pthread_join(t[i], 0);
        pthread_barrier_destroy(&together);
        while (now() - began < 4) {
            bystanders(40);
            truth();
            nap(10);
        }
    }
    return 0;
}
