/* LOG SECONDS: two threads that take two locks the other way about, 2.5 s after the start, and three that want one of
 * them now and then. From then on nothing happens here any more. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t tin = PTHREAD_MUTEX_INITIALIZER, zinc = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void smelt(pthread_mutex_t *first, pthread_mutex_t *second) {
    pthread_mutex_lock(first);
    usleep(100000);
    pthread_mutex_lock(second);
    usleep(1);
}

static void *one(void *none) {
    usleep(2500000);
    smelt(&tin, &zinc);
    return none;
}

static void *other(void *none) {
    usleep(2500000);
    smelt(&zinc, &tin);
    return none;
}

static void *visitor(void *none) {
    for (;;) {
        pthread_mutex_lock(&tin);
        pthread_mutex_unlock(&tin);
        usleep(30000);
    }
    return none;
}

int main(int count, char **words) {
    pthread_t t;
    pthread_create(&t, NULL, one, NULL);
    pthread_create(&t, NULL, other, NULL);
    for (int i = 0; i < 3; i++) pthread_create(&t, NULL, visitor, NULL);
    sleep(count > 2 ? atoi(words[2]) : 12);
    return 0;
}
