// key-value server: three threads on a striped table of fixed size, full after the first second; values of three sizes
#include "work.h"
#include <pthread.h>
enum { KEYS = 24000, STRIPES = 16 };
static char *val[KEYS];
static pthread_mutex_t mu[STRIPES];
NOINLINE char *make_value(void) {
    static const int size[] = {120, 900, 2400};
    size_t n = size[rnd() % 3];
    char *p = malloc(n);
    memset(p, 'v', n);
    return p;
}
static void put(unsigned k) {
    pthread_mutex_lock(&mu[k % STRIPES]);
    free(val[k]);
    val[k] = make_value();
    pthread_mutex_unlock(&mu[k % STRIPES]);
}
static void *client(void *a) { /* each writes keys of its own third and reads all */
    unsigned me = (uintptr_t)a, seen = 0;
    for (int i = 0; i < 400000; i++) /* replays the log: after it the heap has found its size */
        put(rnd() % (KEYS / 3) * 3 + me);
    double t0 = now();
    while (now() - t0 < RUN_LIMIT) {
        for (int i = 0; i < 25; i++)
            put(rnd() % (KEYS / 3) * 3 + me);
        for (int i = 0; i < 25; i++) {
            unsigned k = rnd() % KEYS;
            pthread_mutex_lock(&mu[k % STRIPES]);
            seen += val[k] ? val[k][7] : 0;
            pthread_mutex_unlock(&mu[k % STRIPES]);
        }
        bystanders(10);
        nap(10);
    }
    return (void *)(uintptr_t)seen;
}
int main(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], 0, client, (void *)(uintptr_t)i);
    for (int i = 0; i < 1500; i++) {
        truth();
        nap(100);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], 0);
    return 0;
}
