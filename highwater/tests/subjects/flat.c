/* Says "ready", then sleeps. Each SIGTERM is counted in its log; the first one is answered after a moment, so that
   a second one would be seen. With "forward" it has a child of the same kind. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t signals;

static void count(int number) {
    (void)number;
    signals++;
}

static void nap_ms(long ms) {
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {
    }
}

int main(int argc, char **argv) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count;
    sigaction(SIGTERM, &action, NULL);
    printf("hello\nready\n");
    if (argc > 1) {
        printf("argument %s\n", argv[1]);
    }
    fflush(stdout);
    while (signals == 0) {
        pause();
    }
    nap_ms(300);
    printf("signals %d\n", (int)signals);
    return 0;
}
