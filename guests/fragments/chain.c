// A library to preload beside the probe: a layer over malloc that passes every call on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static volatile long calls;

void *malloc(size_t bytes) {
    static void *(*next)(size_t);
    if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    calls++;
    return next(bytes);
}

void free(void *block) {
    static void (*next)(void *);
    if (!next) next = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next(block);
}
