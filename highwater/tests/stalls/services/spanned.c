/* Calls serve() again and again, REST_US apart, until SIGTERM or for a minute. SIGUSR1 lets it fork two children: one that
 * calls serve() too, and one that only waits. Prints where serve() is, the children's pids, and at its end "done" with the
 * children's exit statuses. argv: REST_US. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t forks, ends;
static volatile int *over;
static volatile uint64_t sink;

__attribute__((noinline)) uint64_t serve(uint64_t number) {
    sink += number;
    return sink;
}

static void on(int signal) {
    if (signal == SIGUSR1)
        forks = 1;
    else
        ends = 1;
}

static void rest(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    if (us > 0)
        nanosleep(&time, NULL);
}

static pid_t child(const char *name, int serves) {
    pid_t pid = fork();
    if (pid == 0) {
        for (uint64_t i = 0; !*over && getppid() != 1; i++) {
            if (serves)
                serve(i);
            rest(1000);
        }
        _exit(serves ? 3 : 4);
    }
    printf("%s %d\n", name, pid);
    fflush(stdout);
    return pid;
}

int main(int count, char **words) {
    long rest_us = count > 1 ? atol(words[1]) : 1000;
    over = mmap(NULL, sizeof *over, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_handler = on};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    printf("serve %lu\n", (unsigned long)serve);
    fflush(stdout);
    pid_t children[2] = {0, 0};
    time_t end = time(NULL) + 60;
    for (uint64_t i = 0; !ends && time(NULL) < end; i++) {
        for (int again = 0; again < (rest_us ? 1 : 1000); again++)
            serve(i);
        rest(rest_us);
        if (forks && !children[0]) {
            children[0] = child("calling", 1);
            children[1] = child("waiting", 0);
        }
    }
    *over = 1;
    int statuses[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        if (children[i])
            waitpid(children[i], &statuses[i], 0);
    printf("done %d %d\n", statuses[0], statuses[1]);
    return 7;
}
