// statically linked with musl, two threads: a relay that forgets the messages of unknown rooms (3 of 4 are freed)
#include "../outside/util.h"
#include <pthread.h>
static void *relay(void *arg) {
    char *wait[500] = {0};
    double t0 = now();
    for (unsigned k = 0; now() - t0 < RUN_LIMIT; k++) {
        for (int i = 0; i < 10; i++) {
            size_t n = rng(400, 2400);
            char *accept_message(size_t), *m = accept_message(n);
            if (rnd() % 4) {
                unsigned j = rnd() % 500;
                free(wait[j]);
                wait[j] = m;
            }
        }
        nap(8);
    }
    return 0;
}
NOINLINE char *accept_message(size_t n) {
    char *m = malloc(n);
    memset(m, 'm', n);
    return m;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, relay, 0);
    pthread_create(&b, 0, relay, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
