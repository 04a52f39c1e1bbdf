// A child that is forked while other threads allocate can allocate.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef ROUNDS
#define ROUNDS 200
#endif

static void *churn(void *number) {
    void *kept[64] = {0};
    for (size_t i = 0;; i++) {
        void **slot = &kept[i % 64];
        free(*slot);
        *slot = malloc(16 + i * 40 % ((size_t)number % 2 ? 480 : 300000));
    }
}

int main(void) {
    for (size_t i = 0; i < 12; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, churn, (void *)i);
    }
    time_t end = time(NULL) + 8;
    for (int i = 1; i <= ROUNDS && time(NULL) < end; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int k = 0; k < 2000; k++) free(malloc(k));
            _exit(0);
        }
        int status, waited = 0;
        while (waitpid(child, &status, WNOHANG) == 0 && ++waited < 4000) usleep(1000);
        if (waited < 4000 && status == 0) continue;
        kill(child, SIGKILL);
        printf("the child of fork %d %s\n", i, waited < 4000 ? "died" : "hangs (4 s)");
        fflush(stdout);
        _exit(1);
    }
    _exit(0);
}
