/* A malloc small enough to compile in no time: hands out a static arena and takes nothing back. */
#include <stddef.h>
#include <string.h>

/* The recipes hide what is not exported. */
#pragma GCC visibility push(default)

static char arena[64 << 20];
static size_t used;

void *malloc(size_t size) {
    size_t rounded = (size + 15) & ~(size_t)15;
    /* The size stands before the block, for realloc. */
    size_t at = __atomic_fetch_add(&used, rounded + 16, __ATOMIC_RELAXED);
    if (at + rounded + 16 > sizeof arena) return NULL;
    *(size_t *)(void *)(arena + at) = size;
    return arena + at + 16;
}

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void *realloc(void *block, size_t size) {
    void *bigger = malloc(size);
    if (block && bigger) {
        size_t old = *(size_t *)(void *)((char *)block - 16);
        memcpy(bigger, block, old < size ? old : size);
    }
    return bigger;
}
