// A relay with two threads, linked statically with musl. It does not free the messages of unknown rooms.
#include "../common.h"

NOINLINE char *accept_message(size_t n) {
    char *m = malloc(n);
    memset(m, 'm', n);
    return m;
}

static void *relay_thread(void *arg) {
    char *wait[500] = {0};
    for (;;) {
        for (int i = 0; i < 10; i++) {
            size_t n = rng(400, 2400);
            char *m = accept_message(n);
            if (rnd() % 4) {
                unsigned j = rnd() % 500;
                free(wait[j]);
                wait[j] = m;
            }
        }
        nap(8);
    }
    return arg;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, relay_thread, 0);
    pthread_create(&b, 0, relay_thread, 0);
    ready();
    pthread_join(a, 0);
    pthread_join(b, 0);
}
