/* glibc's own malloc in front of an allocator that a program is linked with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t), __libc_free(void *);

void *malloc(size_t n) { return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
void free(void *p) { __libc_free(p); }
void *memalign(size_t a, size_t n) { return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return __libc_memalign(a, n); }
int posix_memalign(void **out, size_t a, size_t n) { return (*out = __libc_memalign(a, n)) ? 0 : ENOMEM; }

size_t malloc_usable_size(void *p)
{
    static size_t (*real)(void *);
    if (!real)
        real = dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "malloc_usable_size");
    return real(p);
}
