// How a program may end. What comes after is not run.
#include "guest.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void late(void) { say("late: %ld faults", churn(100, 70000)); }

// end exits(code: 0 3)
void exits(long code) {
    atexit(late);
    exit(code);
}

// end exits_at_once(code: 0 3)
void exits_at_once(long code) { _exit(code); }

// end exits_quickly(code: 0 3)
void exits_quickly(long code) {
    at_quick_exit(late);
    quick_exit(code);
}

// end ended_by(signal: 6 9 11 15)
void ended_by(long signal) {
    void *block = malloc(100000);
    (void)block;
    raise(signal);
}

// end aborts(unused: 0)
void aborts(long unused) {
    (void)unused;
    abort();
}

static void *exit_here(void *code) {
    churn(10, 100000);
    exit((int)(long)code);
}

// end exits_from_thread(code: 0 4)
void exits_from_thread(long code) {
    pthread_t made;
    atexit(late);
    if (pthread_create(&made, NULL, exit_here, (void *)code)) _exit(90);
    for (;;) pause();
}

static void *last(void *unused) {
    (void)unused;
    usleep(2000);
    say("last: %ld faults", churn(100, 70000));
    return NULL;
}

// pthread_exit opens libgcc_s.so.1, as a cancellation does.
// end leaves_threads(unused: 0) not in in_thread in_thread_on_own_stack among_threads in_root filtered
void leaves_threads(long unused) {
    (void)unused;
    pthread_t made;
    if (pthread_create(&made, NULL, last, NULL)) _exit(90);
    pthread_detach(made);
    pthread_exit(NULL);
}

extern char **environ;
// end becomes_another(is_bare: 0 1)
void becomes_another(long is_bare) {
    char self[] = "/proc/self/exe", word[] = "again", *arguments[] = {self, word, NULL}, *nothing[] = {NULL};
    execve(self, arguments, is_bare ? nothing : environ);
    _exit(91);
}

// end frees_wrongly(unused: 0)
void frees_wrongly(long unused) {
    (void)unused;
    // Not by a second free: what an allocator makes of that is its own affair.
    volatile char *nowhere = NULL;
    *nowhere = 1;
}
