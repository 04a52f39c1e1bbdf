// A job runner with a thread for each job. The threads end, but are neither joined nor detached, so that their stacks
// stay, with 56 KB of thread-local storage each.
#include "../common.h"

static __thread char scratch[56 * 1024];
static volatile unsigned done_;

static void *job(void *a) {
    char local[30000];
    memset(scratch, 1, sizeof scratch);
    memset(local, (int)(uintptr_t)a, sizeof local);
    nap(100 + rnd() % 300);
    __sync_fetch_and_add(&done_, local[77] & 1);
    return 0;
}

int main(void) {
    static char *payload[5000];
    double t0 = now();
    unsigned long n = 0;
    pthread_attr_t at;
    pthread_attr_init(&at);
    pthread_attr_setstacksize(&at, 512 * 1024);
    ready();
    for (;;) {
        pthread_t t;
        if (pthread_create(&t, &at, job, (void *)n++))
            fputs("no thread\n", stderr);
        for (int k = 0; k < 50; k++) {
            unsigned i = rnd() % 5000;
            free(payload[i]);
            payload[i] = malloc(rng(1000, 5000));
            memset(payload[i], 1, 1000);
        }
        nap(60 + (int)(swing(now() - t0, 12) * 40));
    }
}
