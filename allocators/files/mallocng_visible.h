/* Included before everything: what the library shows while all else stays hidden. */
#include <stddef.h>

#pragma GCC visibility push(default)
void *malloc(size_t);
void free(void *);
void *calloc(size_t, size_t);
void *realloc(void *, size_t);
void *aligned_alloc(size_t, size_t);
void *memalign(size_t, size_t);
int posix_memalign(void **, size_t, size_t);
void *valloc(size_t);
void *pvalloc(size_t);
size_t malloc_usable_size(void *);
#pragma GCC visibility pop
