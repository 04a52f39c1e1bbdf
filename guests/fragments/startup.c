// What runs before main and after it: constructors, what is registered for the end, and allocation in all of them.
#include "guest.h"
#include <stdlib.h>
#include <string.h>

static long before_all, before_main;
static char *kept_since_start;

// Before the constructors of any library.
static void before_libraries(void) {
    // mimalloc 3 bears no free before its first block, and the probe may have asked for one before.
    free(malloc(100));
    before_all = churn(50, 1000) + 1;
    kept_since_start = calloc(1, 100000);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_libraries;

__attribute__((constructor(101))) static void first_constructor(void) { before_main += churn(50, 300000); }
__attribute__((constructor)) static void last_constructor(void) {
    kept_since_start = realloc(kept_since_start, 400000);
    before_main += kept_since_start == NULL;
}

__attribute__((destructor)) static void last_of_all(void) {
    long faults = churn(50, 70000);
    faults += kept_since_start && kept_since_start[99999] != 0;
    free(kept_since_start);
    say("startup: %ld faults at the end", faults);
}

// step started(unused: 0)
void started(long unused) {
    (void)unused;
    say("started: %ld, %ld", before_all, before_main);
}

static long left;
static void again(void) {
    say("again: %ld, %ld faults", left, churn(20, 50000));
    if (left-- > 0) atexit(again);
}

static void with_argument(int code, void *block) {
    say("with_argument: %d", code);
    free(block);
}

// step registered(count: 0 1 5)
void registered(long count) {
    left = count;
    atexit(again);
    on_exit(with_argument, malloc(1000));
}
