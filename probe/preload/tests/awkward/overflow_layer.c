// An allocator that calls an array of more bytes than there are an overflow, as mimalloc does.
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

void *reallocarray(void *block, size_t count, size_t bytes) {
    size_t total;
    if (!__builtin_mul_overflow(count, bytes, &total)) return realloc(block, total);
    errno = EOVERFLOW;
    return NULL;
}
