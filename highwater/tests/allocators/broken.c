/* glibc's malloc with one thing broken on purpose, chosen by a -DBREAK_...: what the probes of
 * `highwater allocators check` must find. Without any it is clean. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void __libc_free(void *);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static int counter;
static int now_and_then(int every) {
    return __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED) % every == 0;
}

#ifdef BREAK_FORK
static volatile int in_child;
static void child(void) { in_child = 1; }
__attribute__((constructor)) static void watch(void) { pthread_atfork(NULL, NULL, child); }
#endif

#ifdef BREAK_EARLY
static int ready;
__attribute__((constructor)) static void begin(void) { ready = 1; }
#endif

void *malloc(size_t size) {
#ifdef BREAK_FORK
    while (in_child) usleep(1000);
#endif
#ifdef BREAK_EARLY
    if (!ready) return NULL;
#endif
#ifdef BREAK_OVERSIZE
    if (size > PTRDIFF_MAX) size = 16;
#endif
#ifdef BREAK_THREADS
    /* The same block twice, to two owners. */
    static void *last;
    if (size > 100 && size < 600 && now_and_then(5000)) {
        void *again = __atomic_exchange_n(&last, NULL, __ATOMIC_RELAXED);
        if (again) return again;
    }
    void *block = __libc_malloc(size < 600 ? 600 : size);
    if (size > 100 && size < 600) __atomic_store_n(&last, block, __ATOMIC_RELAXED);
    return block;
#endif
    void *given = __libc_malloc(size);
#ifdef BREAK_ERRNO
    if (!given) errno = 0;
#endif
    return given;
}

void free(void *block) {
#if defined BREAK_THREADS || defined BREAK_OVERLAP
    (void)block; /* A block that was given twice cannot be freed twice. */
#else
    __libc_free(block);
#endif
}

void *calloc(size_t count, size_t size) {
#ifdef BREAK_CALLOC
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes) && bytes > 64 && bytes < 4000)
        return __libc_malloc(bytes);
#endif
#ifdef BREAK_OVERSIZE
    return __libc_malloc(count * size > PTRDIFF_MAX ? 16 : count * size);
#endif
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    void *moved = __libc_realloc(block, size);
#ifdef BREAK_REALLOC
    if (moved && size > 2000 && now_and_then(50)) ((char *)moved)[0] ^= 1;
#endif
    return moved;
}

void *memalign(size_t alignment, size_t size) {
#ifdef BREAK_ALIGNMENT
    if (alignment >= 512 && now_and_then(100)) return __libc_memalign(256, size + 512);
#endif
#ifdef BREAK_OVERLAP
    /* A second block inside the first one. */
    static char *before;
    if (alignment >= 256 && before && now_and_then(40)) {
        char *inside = before + 256;
        before = NULL;
        if ((uintptr_t)inside % alignment == 0) return inside;
    }
    return before = __libc_memalign(alignment, size + 4096);
#endif
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) || (alignment & (alignment - 1))) return EINVAL;
    void *block = memalign(alignment, size);
    if (!block) return ENOMEM;
    *out = block;
    return 0;
}

#ifdef BREAK_USABLE_SIZE
size_t malloc_usable_size(void *block) {
    /* More than there is: whoever trusts it writes into the neighbour. */
    return block ? (((size_t *)block)[-1] & ~(size_t)7) + 64 : 0;
}
#endif
