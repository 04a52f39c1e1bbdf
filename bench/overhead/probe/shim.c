// The floor of every preloaded profiler: forwards each call to the next library in line, and does nothing else.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);

__attribute__((constructor)) static void find(void) {
    if (!next_malloc) {
        next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
        next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    }
}

void *malloc(size_t bytes) {
    if (__builtin_expect(!next_malloc, 0)) find();
    return next_malloc(bytes);
}

void free(void *block) {
    if (__builtin_expect(!next_free, 0)) find();
    next_free(block);
}
