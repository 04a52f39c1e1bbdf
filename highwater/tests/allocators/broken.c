/* glibc's malloc with one thing broken on purpose, chosen by a -DBREAK_...: what the probes of
 * `highwater allocators check` must find. Without any it is clean. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
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

#if defined BREAK_FORK || defined BREAK_FORK_CRASH
static volatile int in_child;
static void child(void) { in_child = 1; }
__attribute__((constructor)) static void watch(void) { pthread_atfork(NULL, NULL, child); }
#endif

#ifdef BREAK_EARLY
static int ready;
__attribute__((constructor)) static void begin(void) { ready = 1; }
#endif

#ifdef BREAK_END
__attribute__((destructor)) static void at_the_end(void) { __builtin_trap(); }
#endif

#ifdef BREAK_UNDEFINED
extern int nobody_has_this_function(void);
int uses_it(void) { return nobody_has_this_function(); }
#endif

#ifdef BREAK_THREAD_EXIT
/* A cache for each thread, given back when the thread ends; twice, and then used. */
static pthread_key_t key;
static void thread_ends(void *cache) {
    __libc_free(cache);
    *(volatile int *)(uintptr_t)8 = 1;
}
__attribute__((constructor)) static void make_key(void) { pthread_key_create(&key, thread_ends); }
static __thread int has_cache;
#endif

void *malloc(size_t size) {
#ifdef BREAK_FORK
    while (in_child) usleep(1000);
#endif
#ifdef BREAK_FORK_CRASH
    if (in_child) *(volatile int *)(uintptr_t)8 = 1;
#endif
#ifdef BREAK_EARLY
    if (!ready) return NULL;
#endif
#ifdef BREAK_OVERSIZE
    if (size > PTRDIFF_MAX) size = 16;
#endif
#ifdef BREAK_LARGE
    if (size > 20 << 20) return NULL;
#endif
#ifdef BREAK_HANG
    while (size == 3000) usleep(1000);
#endif
#ifdef BREAK_THREAD_EXIT
    if (!has_cache) {
        has_cache = 1;
        pthread_setspecific(key, __libc_malloc(64));
    }
#endif
#ifdef BREAK_PLAIN_ALIGNMENT
    if (size >= 16) {
        char *block = __libc_malloc(size + 16);
        return block ? block + 8 : NULL;
    }
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
#elif defined BREAK_FREE
    (void)block; /* Nothing is ever given back. */
#elif defined BREAK_PLAIN_ALIGNMENT
    __libc_free((uintptr_t)block % 16 ? (char *)block - 8 : block);
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
#ifdef BREAK_CALLOC_LARGE
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes) && bytes > 20000 && bytes < 100000)
        return __libc_malloc(bytes);
#endif
#ifdef BREAK_CALLOC_COUNT
    /* Zeroes one part of many. */
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes) && bytes > 64 && bytes < 4000) {
        void *block = __libc_malloc(bytes);
        return block ? memset(block, 0, size) : NULL;
    }
#endif
#ifdef BREAK_OVERSIZE
    return __libc_malloc(count * size > PTRDIFF_MAX ? 16 : count * size);
#endif
#ifdef BREAK_PLAIN_ALIGNMENT
    size_t whole;
    if (__builtin_mul_overflow(count, size, &whole)) return errno = ENOMEM, NULL;
    void *zeroed = malloc(whole);
    return zeroed ? memset(zeroed, 0, whole) : NULL;
#endif
    return __libc_calloc(count, size);
}

#ifndef BREAK_NO_REALLOC
void *realloc(void *block, size_t size) {
#ifdef BREAK_PLAIN_ALIGNMENT
    if (block && (uintptr_t)block % 16) block = (char *)block - 8;
#endif
#ifdef BREAK_REALLOC_LARGE
    if (block && size > 1 << 20) {
        char *moved = __libc_malloc(size);
        size_t kept = malloc_usable_size(block);
        if (moved) memcpy(moved, block, kept < 4096 ? kept : 4096), __libc_free(block);
        return moved;
    }
#endif
    void *moved = __libc_realloc(block, size);
#ifdef BREAK_REALLOC
    if (moved && size > 2000 && now_and_then(50)) ((char *)moved)[0] ^= 1;
#endif
    return moved;
}
#endif

#ifndef BREAK_NO_ALIGNED
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
void *valloc(size_t size) { return memalign(4096, size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) || (alignment & (alignment - 1))) return EINVAL;
    void *block = memalign(alignment, size);
    if (!block) return ENOMEM;
    *out = block;
    return 0;
}
#endif

size_t malloc_usable_size(void *block) {
    /* glibc keeps the size of the chunk before the block; a mapped chunk has 16 bytes of its own. */
    size_t chunk = block ? ((size_t *)block)[-1] : 0;
    size_t usable = chunk ? (chunk & ~(size_t)7) - (chunk & 2 ? 16 : 8) : 0;
#ifdef BREAK_USABLE_SIZE
    /* More than there is: whoever trusts it writes into the neighbour. */
    return usable ? usable + 64 : 0;
#endif
#ifdef BREAK_USABLE_SMALL
    return usable / 2;
#endif
    return usable;
}

#ifdef BREAK_NEW
/* operator new(unsigned long): half of what was asked for. */
void *_Znwm(size_t size) { return __libc_malloc(size / 2); }
#endif
#ifdef BREAK_NEW_ALIGNED
/* operator new(unsigned long, std::align_val_t): not aligned. */
void *_ZnwmSt11align_val_t(size_t size, size_t alignment) {
    (void)alignment;
    return __libc_malloc(size);
}
#endif
