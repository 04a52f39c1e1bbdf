// what several of the C and C++ services share: connections served by a thread each, and starting helpers
#pragma once
#include "../outside/ex.h"
#include <poll.h>
static void ox_spawn(int nfd, int *fds, const char *a, const char *b, const char *c, const char *d) {
    const char *av[] = {"", a, b, c, d, 0};
    ex_exec(nfd, fds, av);
}
// every period ms, on a common clock, at the given offset
HELP void ox_until(double period, double off) {
    double n = ex_now(), k = (double)(long)((n * 1e3 - off) / period + 1) * period + off;
    ex_sleep_ms(k - n * 1e3);
}
