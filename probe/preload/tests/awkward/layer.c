// A layer over malloc and free that sets itself up in its first free, with blocks that are large and aligned.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void (*next_free)(void *);
static void *(*next_malloc)(size_t);

static void set_up(void) {
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    void *aligned = NULL;
    if (posix_memalign(&aligned, 4096, 200000) || (uintptr_t)aligned % 4096) abort();
    memset(aligned, 1, 200000);
    void *large = malloc(300000);
    if (!large) abort();
    memset(large, 1, 300000);
}

void free(void *block) {
    if (!next_free) set_up();
    next_free(block);
}

void *malloc(size_t bytes) {
    if (!next_malloc) next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    return next_malloc(bytes);
}
