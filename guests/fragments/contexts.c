// Jumps, stacks of the program's own, and handlers of signals that allocate.
#include "guest.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

// Memory with nothing readable at either side.
static char *fenced(long bytes) {
    char *room = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(room + 4096, bytes, PROT_READ | PROT_WRITE);
    return room + 4096;
}

static void unfence(char *room, long bytes) { munmap(room - 4096, bytes + 8192); }

static jmp_buf back;
__attribute__((noinline)) static void jump_from(long depth, long bytes) {
    volatile char frame[64];
    frame[1] = (char)(depth % 64);
    free(malloc(bytes));
    if (depth == 0) longjmp(back, 1 + frame[1]);
    jump_from(depth - 1, bytes);
}

// step jumped(rounds: 1 30 1..100, depth: 0 20 0..60, bytes: 100 100000 1..300000)
void jumped(long rounds, long depth, long bytes) {
    volatile long jumps = 0;
    for (volatile long round = 0; round < rounds; round++)
        if (setjmp(back) == 0) jump_from(depth, bytes);
        else jumps++;
    say("jumped: %ld", jumps);
}

static ucontext_t outside, inside;
static long context_bytes, context_faults;
static void in_context_function(void) {
    for (int round = 0; round < 3; round++) {
        context_faults += churn(40, context_bytes);
        swapcontext(&inside, &outside);
    }
}

// step small_context(stack: 8192 16384, bytes: 100 5000 300000 1..200000)
void small_context(long stack, long bytes) {
    char *room = fenced(stack);
    context_bytes = bytes;
    context_faults = 0;
    getcontext(&inside);
    inside.uc_stack.ss_sp = room;
    inside.uc_stack.ss_size = stack;
    inside.uc_link = &outside;
    makecontext(&inside, in_context_function, 0);
    for (int round = 0; round < 4; round++) swapcontext(&outside, &inside);
    unfence(room, stack);
    say("small_context: %ld faults", context_faults);
}

static body inner_body;
static void run_inner(void) { inner_body(); }

// around in_context(stack: 131072 1048576)
void in_context(body inner, long stack) {
    ucontext_t here, there;
    char *room = fenced(stack);
    inner_body = inner;
    getcontext(&there);
    there.uc_stack.ss_sp = room;
    there.uc_stack.ss_size = stack;
    there.uc_link = &here;
    makecontext(&there, run_inner, 0);
    swapcontext(&here, &there);
    unfence(room, stack);
    say("in_context: back");
}

static body handler_body;
static void run_handler(int signal) {
    (void)signal;
    handler_body();
}

// around in_handler(stack: 0 131072)
void in_handler(body inner, long stack) {
    stack_t ours = {0}, before;
    struct sigaction act = {0}, act_before;
    char *room = stack ? fenced(stack) : NULL;
    if (stack) {
        ours.ss_sp = room;
        ours.ss_size = stack;
        sigaltstack(&ours, &before);
        act.sa_flags = SA_ONSTACK;
    }
    handler_body = inner;
    act.sa_handler = run_handler;
    sigaction(SIGUSR1, &act, &act_before);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &act_before, NULL);
    if (stack) {
        before.ss_flags &= ~SS_ONSTACK;
        sigaltstack(&before, NULL);
        unfence(room, stack);
    }
    say("in_handler: back");
}

static long small_bytes, small_faults;
static void small_handler(int signal) {
    (void)signal;
    small_faults += churn(20, small_bytes);
}

// step small_handler_stack(stack: 12288 16384, bytes: 100 300000 1..200000)
void small_handler_stack(long stack, long bytes) {
    stack_t ours = {0}, before;
    struct sigaction act = {0}, act_before;
    char *room = fenced(stack);
    ours.ss_sp = room;
    ours.ss_size = stack;
    small_bytes = bytes;
    small_faults = 0;
    int code = sigaltstack(&ours, &before);
    act.sa_flags = SA_ONSTACK;
    act.sa_handler = small_handler;
    sigaction(SIGUSR2, &act, &act_before);
    if (code == 0) raise(SIGUSR2);
    sigaction(SIGUSR2, &act_before, NULL);
    if (code == 0) sigaltstack(&before, NULL);
    unfence(room, stack);
    say("small_handler_stack: code %d, %ld faults", code, small_faults);
}

static sigjmp_buf out_of_handler;
static void jumping_handler(int signal) {
    (void)signal;
    free(malloc(200000));
    siglongjmp(out_of_handler, 1);
}

// step jumped_from_handler(rounds: 1 20)
void jumped_from_handler(long rounds) {
    struct sigaction act = {0}, before;
    volatile long jumps = 0;
    act.sa_handler = jumping_handler;
    sigaction(SIGUSR2, &act, &before);
    for (volatile long round = 0; round < rounds; round++)
        if (sigsetjmp(out_of_handler, 1) == 0) raise(SIGUSR2);
        else jumps++;
    sigaction(SIGUSR2, &before, NULL);
    say("jumped_from_handler: %ld", jumps);
}

// A fault of its own that the program handles, as runtimes with guard pages do.
static void fault_handler(int signal) {
    free(malloc(200000));
    siglongjmp(out_of_handler, signal);
}

// step faulted(rounds: 1 10)
void faulted(long rounds) {
    struct sigaction act = {0}, before;
    volatile long jumps = 0;
    char *volatile room = fenced(4096);
    act.sa_handler = fault_handler;
    sigaction(SIGSEGV, &act, &before);
    for (volatile long round = 0; round < rounds; round++)
        if (sigsetjmp(out_of_handler, 1) == 0) room[4096] = 1;
        else jumps++;
    sigaction(SIGSEGV, &before, NULL);
    unfence(room, 4096);
    say("faulted: %ld", jumps);
}

static volatile int ticks;
static void tick(int signal) {
    (void)signal;
    int errno_before = errno;
    ticks++;
    errno = errno_before;
}

// step ticking(microseconds: 200 1000, bytes: 100 300000 1..200000)
void ticking(long microseconds, long bytes) {
    struct sigaction act = {0}, before;
    struct itimerval often = {{0, microseconds}, {0, microseconds}}, never = {0};
    long faults = 0;
    ticks = 0;
    act.sa_handler = tick;
    act.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &act, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    while (ticks < 5) faults += churn(20, bytes);
    setitimer(ITIMER_REAL, &never, NULL);
    // A last one may be pending, for any thread: ignoring the signal discards it.
    signal(SIGALRM, SIG_IGN);
    sigaction(SIGALRM, &before, NULL);
    say("ticking: %ld faults", faults);
}
