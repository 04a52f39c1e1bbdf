// Threads by the hundred that come, allocate, hand their blocks to another that frees them, and go; TLS destructors that
// allocate when everything is over.
#include "truth.h"
#include <pthread.h>

enum { STORMS = 40, AT_ONCE = 50, EACH = 400 };

static pthread_key_t key;
static void *handed[AT_ONCE][EACH];
static int rounds_of_destructor;

static void destructor(void *block) {
    free(gives(block));
    // Once more: the value set in a destructor is destroyed in a further round.
    if (__atomic_fetch_add(&rounds_of_destructor, 1, __ATOMIC_RELAXED) % 3 == 0) {
        pthread_setspecific(key, took(malloc(333)));
    }
}

static void *work(void *argument) {
    void **mine = argument;
    pthread_setspecific(key, took(malloc(77)));
    for (int at = 0; at < EACH; at++) {
        mine[at] = took(malloc(10 + at * 7));
        MUST(mine[at]);
    }
    for (int at = 0; at < EACH; at += 4) {
        free(gives(mine[at]));
        mine[at] = NULL;
    }
    return NULL;
}

int main(void) {
    MUST(pthread_key_create(&key, destructor) == 0);
    mark();
    for (int storm = 0; storm < STORMS; storm++) {
        pthread_t threads[AT_ONCE];
        for (int at = 0; at < AT_ONCE; at++) {
            MUST(pthread_create(&threads[at], NULL, work, handed[at]) == 0);
        }
        for (int at = 0; at < AT_ONCE; at++) {
            MUST(pthread_join(threads[at], NULL) == 0);
        }
        // The last storm's blocks stay.
        for (int at = 0; at < AT_ONCE && storm + 1 < STORMS; at++) {
            for (int block = 0; block < EACH; block++) free(gives(handed[at][block]));
        }
    }
    mark();
    return 0;
}
