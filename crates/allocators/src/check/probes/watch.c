/* Says where a probe was when it died or hung. The starter sees a signal or an exit code 3; the
 * words tell what was going on. */
#include "probes.h"

#include <signal.h>

#define EXIT_HANGS 3

static const char *volatile where = "the program starts";

void doing(const char *words) { where = words; }

/* Only what is safe in a signal handler: no stdio, no heap. */
static void say(const char *words) {
    if (write(1, words, strlen(words))) {
    }
}

/* Several threads may find or meet the same at once: the first one speaks. */
void only_one(void) {
    static int speaks;
    if (__atomic_exchange_n(&speaks, 1, __ATOMIC_ACQ_REL)) pause();
}

static void dies(int number) {
    only_one();
    say("while ");
    say(where);
    /* Without the handler the signal ends the program as if there had been none. */
    signal(number, SIG_DFL);
    raise(number);
}

static void hangs(int number) {
    (void)number;
    only_one();
    say("while ");
    say(where);
    _exit(EXIT_HANGS);
}

/* `seconds`: when a probe counts as hung; the starter's own limit is a little later. */
void watch(unsigned seconds) {
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
    static char stack[65536];
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&own, NULL);
    struct sigaction action = {.sa_handler = dies, .sa_flags = SA_ONSTACK | SA_NODEFER};
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        sigaction(deadly[i], &action, NULL);
    struct sigaction late = {.sa_handler = hangs, .sa_flags = SA_ONSTACK};
    sigaction(SIGALRM, &late, NULL);
    alarm(seconds);
}
