// Forks while other threads allocate. The child's counts are its own: it goes on from what it inherited, and the parent's
// do not move with it.
#include "truth.h"
#include <pthread.h>
#include <sys/wait.h>

static int stop;

static void *churn(void *argument) {
    (void)argument;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        void *volatile block = malloc(3000);
        free(block);
    }
    return NULL;
}

int main(void) {
    void **kept = malloc(20000 * sizeof *kept);
    for (int at = 0; at < 10000; at++) kept[at] = took(malloc(2000));
    pthread_t threads[3];
    for (int at = 0; at < 3; at++) pthread_create(&threads[at], NULL, churn, NULL);
    mark();
    for (int round = 0; round < 20; round++) {
        pid_t quick = fork();
        MUST(quick >= 0);
        if (quick == 0) _exit(0);
        int status;
        MUST(waitpid(quick, &status, 0) == quick && status == 0);
    }
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        for (int at = 0; at < 5000; at++) free(gives(kept[at]));
        for (int at = 10000; at < 20000; at++) kept[at] = took(malloc(2000));
        mark();
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int at = 0; at < 3; at++) pthread_join(threads[at], NULL);
    mark();
    return 0;
}
