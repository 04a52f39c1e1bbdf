// A timer's handler that allocates and frees in the middle of everything, on a stack of its own; and one that leaves by
// longjmp. Not what a program should do, and what programs do. The main loop blocks the signal around its own calls, so
// that only the probe's handling is put to the test and not the allocator's.
#include "truth.h"
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>

static void *ring[64];
static volatile unsigned handled;
static sigjmp_buf out;
static volatile sig_atomic_t may_jump;
static char stack[65536];

static void handler(int number) {
    (void)number;
    unsigned at = handled++ % 64;
    free(gives(ring[at]));
    ring[at] = took(malloc(20000));
    if (may_jump && handled % 3 == 0) siglongjmp(out, 1);
}

int main(void) {
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    mark();
    sigprocmask(SIG_BLOCK, &alarm, NULL);
    struct itimerval every = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &every, NULL);
    void *kept[1000] = {0};
    for (volatile int round = 0; round < 20000; round++) {
        int at = round % 1000;
        free(gives(kept[at]));
        kept[at] = took(malloc(30000));
        if (sigsetjmp(out, 1) == 0) {
            may_jump = 1;
            sigprocmask(SIG_UNBLOCK, &alarm, NULL);
            sigprocmask(SIG_BLOCK, &alarm, NULL);
        }
        may_jump = 0;
    }
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_REAL, &every, NULL);
    MUST(handled > 10);
    mark();
    return 0;
}
