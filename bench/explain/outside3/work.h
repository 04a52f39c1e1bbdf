#pragma once
#include "../outside2/util.h"
/* bystander traffic: n short-lived blocks of mixed sizes, each replaced some hundreds of calls later */
static NOINLINE void bystanders(int n) {
    static __thread char *slot[800];
    while (n--) {
        unsigned i = rnd() % 800, size = rnd() % 9 ? rng(16, 400) : rng(400, 3000);
        free(slot[i]);
        slot[i] = (char *)malloc(size);
        memset(slot[i], n, size);
    }
}
