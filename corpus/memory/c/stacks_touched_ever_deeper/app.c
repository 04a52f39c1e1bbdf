// Twenty-four parsers, started at the beginning. The documents nest deeper and deeper, so that every stack is touched
// further down.
#include "../common.h"

static volatile int depth = 20;

NOINLINE int parse_element(int level, unsigned seed) {
    volatile char text[1200];
    for (int i = 0; i < 1200; i += 400)
        text[i] = seed;
    if (level <= 0)
        return text[0];
    return parse_element(level - 1, seed * 31 + 7) + text[400];
}

static void *parser(void *a) {
    unsigned n = 0;
    for (;;) {
        n += parse_element(depth, n);
        serve_requests(30);
        nap(60);
    }
    return a;
}

int main(void) {
    pthread_t t[24];
    for (int i = 0; i < 24; i++)
        pthread_create(&t[i], 0, parser, 0);
    ready();
    for (int i = 0; i < 1500; i++) {
        depth = 20 + i * 4000 / 1500;
        nap(100);
    }
    nap(120000);
}
