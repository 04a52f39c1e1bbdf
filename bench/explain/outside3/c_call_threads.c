// telephone exchange under mimalloc: a thread for each call, six going at once, two thirds of a second each; a call makes
// 1.2 MB of records, and when it ends it leaves one of twenty-four in the ledger of a fixed number of bytes, where a random one goes
#include "work.h"
#include <pthread.h>
enum { MOST = 200000 };
static struct rec {
    char *p;
    unsigned n;
} ledger[MOST];
static unsigned ledgers;
static long bytes;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
NOINLINE char *call_record(unsigned n) {
    char *p = malloc(n);
    memset(p, 'c', n);
    return p;
}
static void leave(struct rec r) {
    pthread_mutex_lock(&mu);
    ledger[ledgers++] = r;
    bytes += r.n;
    while (bytes > 12l << 20) {
        unsigned k = rnd() % ledgers;
        bytes -= ledger[k].n;
        free(ledger[k].p);
        ledger[k] = ledger[--ledgers];
    }
    live_ = bytes;
    pthread_mutex_unlock(&mu);
}
static double start;
static void *call(void *a) {
    enum { N = 8000 };
    struct rec *r = calloc(N, sizeof *r);
    unsigned kind = (uintptr_t)a, n = 0;
    long made = 0;
    double size = 150; /* the codec of the hour: new ones have larger records */
    for (int gen = (int)((now() - start) / 4) % 16; gen--;)
        size *= 1.25;
    for (; n < N && made < 1200000; n++) {
        r[n].n = (unsigned)size - rnd() % 12;
        r[n].p = call_record(r[n].n);
        made += r[n].n;
        if (made / 60000 != (made - r[n].n) / 60000)
            nap(30);
    }
    for (unsigned i = 0; i < n; i++)
        if (i % 24 == kind % 24)
            leave(r[i]);
        else
            free(r[i].p);
    free(r);
    return 0;
}
int main(void) {
    double t0 = start = now();
    unsigned kind = 0;
    while (bytes < 11l << 20)
        leave((struct rec){call_record(700), 700});
    while (now() - t0 < RUN_LIMIT) {
        pthread_t t[6];
        for (int i = 0; i < 6; i++)
            pthread_create(&t[i], 0, call, (void *)(uintptr_t)(kind++));
        for (int i = 0; i < 6; i++)
            pthread_join(t[i], 0);
        bystanders(100);
        truth();
    }
    return 0;
}
