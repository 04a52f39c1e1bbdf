// Uses a small stack up, again and again, by calls that allocate, and goes on in a handler on another stack. The end of
// the stack comes in another place each time, mostly inside malloc. What malloc was at is lost: each is a child.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf out;
static void handler(int signal) { siglongjmp(out, signal); }

__attribute__((noinline)) static long deeper(long depth) {
    volatile char frame[16];
    frame[0] = 1;
    void *block = malloc(100);
    return deeper(depth + 1) + frame[0] + (block != NULL);
}

static void *overflow(void *less) {
    static char other[65536];
    stack_t ours = {.ss_sp = other, .ss_size = sizeof other};
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    volatile char room[(long)less];
    room[0] = 0;
    sigaltstack(&ours, NULL);
    sigaction(SIGSEGV, &act, NULL);
    if (sigsetjmp(out, 1) == 0) deeper(0);
    _exit(7);
}

int main(void) {
    int handled = 0;
    for (long less = 16; less <= 3200; less += 16) {
        int child = fork(), status = 0;
        if (child == 0) {
            pthread_attr_t how;
            pthread_t made;
            // With a guard at its end, unlike the stack of main, which grows.
            pthread_attr_init(&how);
            pthread_attr_setstacksize(&how, 65536);
            pthread_create(&made, &how, overflow, (void *)less);
            pthread_join(made, NULL);
            _exit(8);
        }
        waitpid(child, &status, 0);
        handled += WIFEXITED(status) && WEXITSTATUS(status) == 7;
    }
    printf("%d handled\n", handled);
    return 0;
}
