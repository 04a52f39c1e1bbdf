// Signals: timers of every clock, storms, handlers in handlers, stacks that overflow.
#include "guest.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t seen;
static void count_one(int signal) {
    (void)signal;
    seen++;
}

// A profiler of the program's own: its handler uses the stack that the signal finds.
// step profiled(clock: 0 1 2, microseconds: 200..2000, bytes: 100 1..300000) not in in_handler
void profiled(long clock, long microseconds, long bytes) {
    static const int clocks[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}, signals[] = {SIGALRM, SIGVTALRM, SIGPROF};
    struct sigaction act = {0}, before;
    struct itimerval often = {{0, microseconds}, {0, microseconds}}, never = {0};
    long faults = 0;
    seen = 0;
    act.sa_handler = count_one;
    act.sa_flags = SA_RESTART;
    sigaction(signals[clock], &act, &before);
    int code = setitimer(clocks[clock], &often, NULL);
    while (code == 0 && seen < 4) faults += churn(20, bytes);
    setitimer(clocks[clock], &never, NULL);
    // A last one may be pending: ignoring the signal discards it.
    signal(signals[clock], SIG_IGN);
    sigaction(signals[clock], &before, NULL);
    say("profiled: code %d, %ld faults", code, faults);
}

static int left_deep;
static void deeper_handler(int signal) {
    free(malloc(50000));
    if (left_deep-- > 0) raise(signal == SIGUSR1 ? SIGUSR2 : SIGUSR1);
    seen++;
}

// step nested_handlers(depth: 1 2..40)
void nested_handlers(long depth) {
    struct sigaction act = {0}, first, second;
    act.sa_handler = deeper_handler;
    act.sa_flags = SA_NODEFER;
    left_deep = (int)depth;
    seen = 0;
    sigaction(SIGUSR1, &act, &first);
    sigaction(SIGUSR2, &act, &second);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &first, NULL);
    sigaction(SIGUSR2, &second, NULL);
    say("nested_handlers: %d", (int)seen);
}

// step queued(count: 1..30, kind: 0 1)
void queued(long count, long kind) {
    sigset_t one, before;
    long sum = 0;
    sigemptyset(&one);
    sigaddset(&one, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &one, &before);
    for (long each = 1; each <= count; each++) {
        union sigval value = {.sival_int = (int)each};
        // To this thread: in another one the signal is not blocked.
        if (pthread_sigqueue(pthread_self(), SIGRTMIN + 1, value)) count = each - 1;
    }
    churn(50, 100000);
    int file = kind ? signalfd(-1, &one, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
    struct signalfd_siginfo read_info;
    siginfo_t info;
    struct timespec none = {0, 0};
    for (long each = 0; each < count; each++) {
        free(malloc(1000));
        if (file >= 0 && read(file, &read_info, sizeof read_info) == sizeof read_info) sum += read_info.ssi_int;
        else if (sigtimedwait(&one, &info, &none) > 0) sum += info.si_value.sival_int;
    }
    if (file >= 0) close(file);
    sigprocmask(SIG_SETMASK, &before, NULL);
    say("queued: %ld", sum);
}

static void reap(int signal) {
    (void)signal;
    int errno_before = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0) seen++;
    errno = errno_before;
}

// Children are reaped in a handler, while the program allocates. In a child: it has no other children.
// step reaped(children: 1..8, bytes: 100 1..100000)
void reaped(long children, long bytes) {
    int child = fork();
    if (child == 0) {
        struct sigaction act = {0};
        long made = 0, faults = 0;
        seen = 0;
        act.sa_handler = reap;
        act.sa_flags = SA_RESTART | SA_NOCLDSTOP;
        sigaction(SIGCHLD, &act, NULL);
        for (long each = 0; each < children; each++) {
            int one = fork();
            if (one == 0) _exit((int)churn(20, bytes));
            made += one > 0;
        }
        while (seen < made) faults += churn(20, bytes);
        say("reaped: %ld faults", faults);
        _exit(6);
    }
    say_end("reaped", child);
}

static volatile int is_target_busy;
static void *target(void *given) {
    while (is_target_busy) churn(50, (long)given);
    return NULL;
}

// step struck(threads: 1 3, signals: 1..200, bytes: 100 1..100000)
void struck(long threads, long signals, long bytes) {
    pthread_t made[3];
    struct sigaction act = {0}, before;
    long started = 0;
    seen = 0;
    is_target_busy = 1;
    act.sa_handler = count_one;
    act.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &act, &before);
    for (long each = 0; each < threads; each++)
        started += pthread_create(&made[started], NULL, target, (void *)bytes) == 0;
    for (long each = 0; each < signals; each++)
        for (long thread = 0; thread < started; thread++) pthread_kill(made[thread], SIGUSR2);
    is_target_busy = 0;
    for (long each = 0; each < started; each++) pthread_join(made[each], NULL);
    sigaction(SIGUSR2, &before, NULL);
    say("struck: %ld threads, any %d", started, seen > 0 || !started);
}

static sem_t expired;
static void on_expiry(union sigval value) {
    churn(20, value.sival_int);
    sem_post(&expired);
}

// The C library runs the function in threads of its own, and keeps one: in a child.
// step timer_threads(bytes: 100 100000) not in filtered without_call
void timer_threads(long bytes) {
    int child = fork();
    if (child == 0) {
        struct sigevent event = {0};
        struct itimerspec often = {{0, 1000000}, {0, 1000000}};
        timer_t timer;
        sem_init(&expired, 0, 0);
        event.sigev_notify = SIGEV_THREAD;
        event.sigev_notify_function = on_expiry;
        event.sigev_value.sival_int = (int)bytes;
        int code = timer_create(CLOCK_MONOTONIC, &event, &timer);
        if (code == 0) code = timer_settime(timer, 0, &often, NULL);
        for (int each = 0; code == 0 && each < 3; each++) sem_wait(&expired);
        say("timer_threads: code %d", code);
        _exit(6);
    }
    say_end("timer_threads", child);
}

static sigjmp_buf out_of_overflow;
static void on_overflow(int signal) { siglongjmp(out_of_overflow, signal); }

static volatile long frame_bytes;
__attribute__((noinline)) static long overflow(long depth, long bytes) {
    volatile char frame[frame_bytes];
    frame[0] = (char)depth;
    // The deepest call may be the allocator's: the stack ends inside it.
    void *block = malloc(bytes);
    long below = block ? overflow(depth + 1, bytes) : 0;
    free(block);
    return below + frame[0];
}

// What a runtime does: the overflow is found on a stack for signals, and ends the task. What of the heap was in use is
// lost, so it is in a child that asks for nothing afterwards.
// step overflowed(stack: 65536 65536..200000, frame: 1 1..3000, bytes: 24 100 1..20000) not in under_memory_limit locked
void overflowed(long stack, long frame, long bytes) {
    int child = fork();
    if (child == 0) {
        struct sigaction act = {0};
        stack_t ours = {0};
        struct rlimit low = {stack, RLIM_INFINITY};
        ours.ss_size = 65536;
        ours.ss_sp = mmap(NULL, ours.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        sigaltstack(&ours, NULL);
        getrlimit(RLIMIT_STACK, &low);
        low.rlim_cur = stack + 200000;
        setrlimit(RLIMIT_STACK, &low);
        act.sa_handler = on_overflow;
        act.sa_flags = SA_ONSTACK;
        sigaction(SIGSEGV, &act, NULL);
        sigaction(SIGBUS, &act, NULL);
        frame_bytes = frame;
        int signal = sigsetjmp(out_of_overflow, 1);
        if (signal == 0) overflow(0, bytes);
        say("overflowed: signal %d", signal);
        _exit(6);
    }
    say_end("overflowed", child);
}

// In another thread the first one would get the signal.
// step interrupted(bytes: 100 100000) not in in_thread in_thread_on_own_stack among_threads amid
void interrupted(long bytes) {
    struct sigaction act = {0}, before;
    struct itimerval soon = {{0, 2000}, {0, 2000}}, never = {0};
    int ends[2];
    char byte;
    if (pipe(ends)) return;
    act.sa_handler = count_one;
    sigaction(SIGALRM, &act, &before);
    churn(20, bytes);
    setitimer(ITIMER_REAL, &soon, NULL);
    errno = 0;
    long got = read(ends[0], &byte, 1);
    int errno_after = errno;
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    say("interrupted: %ld, errno %d", got, errno_after);
    sigaction(SIGALRM, &before, NULL);
    close(ends[0]);
    close(ends[1]);
}
