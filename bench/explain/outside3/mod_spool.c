// the module: its own thread, started when it is opened; hidden names but for one
#include "work.h"
#include <pthread.h>
static char *held[300];
NOINLINE static char *spool_page(unsigned n) {
    char *p = calloc(n, 1);
    memset(p, 's', n / 2 + 1);
    for (unsigned i = 0; i < n; i += 512)
        p[i] = 1;
    return p;
}
static void *spooler(void *a) {
    double t0 = now();
    for (unsigned k = 0; now() - t0 < RUN_LIMIT; k++) {
        unsigned n = rng(2000, 14000);
        char *p = spool_page(n);
        if (rnd() % 3 == 0)
            lost_ += n; /* blank page: not printed, not freed */
        else {
            free(held[k % 300]);
            held[k % 300] = p;
        }
        bystanders(12);
        nap(4);
    }
    return 0;
}
__attribute__((visibility("default"))) int module_start(void) {
    pthread_t t;
    return pthread_create(&t, 0, spooler, 0);
}
