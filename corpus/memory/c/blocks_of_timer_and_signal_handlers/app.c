// A timer allocates. Mode timer_thread: in a thread that the timer starts, 50 times a second. Mode signal_handler: in
// the handler of its signal, ten times a second, while the program rests.
#include "../common.h"

NOINLINE static void collect_sample(size_t n) {
    use(memset(malloc(n), 1, n));
}

static void on_timer_thread(union sigval value) {
    (void)value;
    collect_sample(2200);
}

static void on_signal(int number) {
    (void)number;
    collect_sample(6000);
}

int main(int argc, char **argv) {
    int in_thread = argc > 1 && !strcmp(argv[1], "timer_thread");
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec when = {{0, 100000000}, {0, 100000000}};
    timer_t timer;
    if (in_thread) {
        how = (struct sigevent){.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer_thread};
        when = (struct itimerspec){{0, 20000000}, {0, 20000000}};
    }
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 20; i++)
        serve_requests(100);
    if (timer_create(CLOCK_MONOTONIC, &how, &timer) || timer_settime(timer, 0, &when, NULL))
        return 1;
    ready();
    for (;;) {
        if (!in_thread)
            pause();
        serve_requests(in_thread ? 50 : 0);
        nap(in_thread ? 30 : 0);
    }
}
