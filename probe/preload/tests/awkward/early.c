// Allocates in a constructor of the highest priority, in a preinit function, and in a destructor.
#include "truth.h"

static void *first[1000];

static void before_everything(void) {
    for (int at = 0; at < 500; at++) first[at] = took(malloc(10000 + at));
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = before_everything;

__attribute__((constructor(101))) static void constructor(void) {
    for (int at = 500; at < 1000; at++) first[at] = took(malloc(10000 + at));
    for (int at = 0; at < 500; at += 2) free(gives(first[at]));
}

__attribute__((destructor)) static void last(void) {
    for (int at = 1; at < 500; at += 2) free(first[at]);
    void *volatile block = malloc(100);
    free(block);
}

int main(void) {
    mark();
    return 0;
}
