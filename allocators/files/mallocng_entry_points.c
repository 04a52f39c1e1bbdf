/* The entry points that musl keeps outside mallocng, and the fork handlers. */
#include "meta.h"

int is_allzero(void *);

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = malloc(bytes);
    /* Fresh mappings are zero already. */
    if (block && !is_allzero(block)) memset(block, 0, bytes);
    return block;
}

void *memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1))) return EINVAL;
    int before = errno;
    void *block = aligned_alloc(alignment, size);
    errno = before;
    if (!block) return ENOMEM;
    *out = block;
    return 0;
}

void *valloc(size_t size) { return aligned_alloc(sysconf(_SC_PAGESIZE), size); }

void *pvalloc(size_t size) {
    size_t page = sysconf(_SC_PAGESIZE);
    if (size > SIZE_MAX - page) {
        errno = ENOMEM;
        return NULL;
    }
    return aligned_alloc(page, (size + page - 1) & ~(page - 1));
}

static void before_fork(void) { wrlock(); }
static void parent_after_fork(void) { unlock(); }
static void child_after_fork(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    mallocng_lock = fresh;
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, parent_after_fork, child_after_fork);
}
