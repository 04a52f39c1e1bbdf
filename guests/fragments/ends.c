// How a program may end. What comes after is not run.
#include "guest.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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

// end leaves_threads(unused: 0) not in in_thread in_thread_on_own_stack among_threads amid
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

static long handler_code;
static void exits_now(int signal) {
    (void)signal;
    exit((int)handler_code);
}

// end exits_in_handler(code: 0 5, signal: 10 15)
void exits_in_handler(long code, long signal) {
    struct sigaction act = {0};
    handler_code = code;
    act.sa_handler = exits_now;
    sigaction((int)signal, &act, NULL);
    atexit(late);
    raise((int)signal);
}

static void allocates(int signal) {
    (void)signal;
    say("allocates: %ld faults", churn(50, 70000));
}

// end aborts_with_handler(unused: 0)
void aborts_with_handler(long unused) {
    (void)unused;
    struct sigaction act = {0};
    act.sa_handler = allocates;
    sigaction(SIGABRT, &act, NULL);
    abort();
}

__attribute__((noinline)) static long endless(long depth, long bytes) {
    volatile char frame[64];
    frame[0] = (char)depth;
    void *block = malloc(bytes);
    return endless(depth + 1, bytes) + frame[0] + (block != NULL);
}

// end overflows(bytes: 1 100 1..5000) not in under_memory_limit locked
void overflows(long bytes) {
    struct rlimit low;
    getrlimit(RLIMIT_STACK, &low);
    low.rlim_cur = 400000;
    setrlimit(RLIMIT_STACK, &low);
    endless(0, bytes);
}

// What the program does wrong the C library finds, and ends it. Other allocators find other things, or nothing.
// end misuses(kind: 0 1 2 3 4 5, bytes: 24 1000 200000) not in among_threads amid
void misuses(long kind, long bytes) {
    char *volatile block = malloc(bytes), *volatile fence = malloc(bytes);
    if (has_other_allocator() || !block || !fence) exit(4);
    memset(block, 0, bytes);
    switch (kind) {
    case 0: free(block); free(block); break;
    case 1: free(block + 16); break;
    case 2: free(block + 8); break;
    case 3: block = realloc(block + 16, bytes); break;
    // The size in front of the block is overwritten.
    case 4: memset(block - 8, 0x41, 8); free(block); break;
    case 5: free((void *)0x1234560); break;
    }
    exit(4);
}

static void *executes(void *unused) {
    (void)unused;
    char self[] = "/proc/self/exe", word[] = "again", *arguments[] = {self, word, NULL};
    churn(10, 100000);
    execve(self, arguments, environ);
    _exit(91);
}

// end becomes_another_from_thread(unused: 0)
void becomes_another_from_thread(long unused) {
    (void)unused;
    pthread_t made;
    if (pthread_create(&made, NULL, executes, NULL)) _exit(90);
    for (;;) churn(10, 1000);
}

// end exits_by_number(code: 0 6)
void exits_by_number(long code) { syscall(SYS_exit_group, code); }
