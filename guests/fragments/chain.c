// A library to preload beside the probe: a layer over malloc that passes every call on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static volatile long calls;

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);

// Both at once: the C library frees in dlsym after a look-up that failed.
static void find(void) {
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

void *malloc(size_t bytes) {
    if (!next_malloc) find();
    calls++;
    return next_malloc(bytes);
}

void free(void *block) {
    if (!next_free) find();
    next_free(block);
}
