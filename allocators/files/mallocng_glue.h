/* What musl's mallocng needs from its C library, on glibc's primitives. Takes the place of the
 * glue.h that lies beside it in musl's source. */
#ifndef HIGHWATER_MALLOCNG_GLUE_H
#define HIGHWATER_MALLOCNG_GLUE_H

#define _GNU_SOURCE
#define _DEFAULT_SOURCE
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* Names of its own: this library shares a process with everything else. */
#define size_classes mallocng_size_classes
#define ctx mallocng_context
#define alloc_meta mallocng_alloc_meta
#define is_allzero mallocng_is_allzero

#undef assert
#define assert(x)                                                                                  \
    do {                                                                                           \
        if (!(x)) __builtin_trap();                                                                \
    } while (0)

/* The program's own break stays the program's: the allocator falls back to mmap. */
#define brk(p) ((uintptr_t) - 1)

#define DISABLE_ALIGNED_ALLOC 0
#define RDLOCK_IS_EXCLUSIVE 1
/* Threads may come at any time. */
#define MT 1

static inline int a_cas(volatile int *p, int expected, int wanted) {
    __atomic_compare_exchange_n(p, &expected, wanted, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
static inline int a_swap(volatile int *p, int v) {
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}
static inline void a_or(volatile int *p, int v) { __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }
static inline int a_ctz_32(uint32_t x) { return __builtin_ctz(x); }
static inline int a_clz_32(uint32_t x) { return __builtin_clz(x); }
static inline void a_crash(void) { __builtin_trap(); }

static inline size_t get_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static inline uint64_t get_random_secret(void) {
    uint64_t secret = (uintptr_t)&secret * 1103515245;
    /* The second half of the kernel's 16 random bytes: glibc uses the first for its own canaries.
     */
    const char *random = (const char *)getauxval(AT_RANDOM);
    if (random) memcpy(&secret, random + 8, sizeof secret);
    return secret;
}

__attribute__((__visibility__("hidden"))) extern pthread_mutex_t mallocng_lock;

#define LOCK_OBJ_DEF pthread_mutex_t mallocng_lock = PTHREAD_MUTEX_INITIALIZER

static inline void wrlock(void) { pthread_mutex_lock(&mallocng_lock); }
static inline void rdlock(void) { wrlock(); }
static inline void unlock(void) { pthread_mutex_unlock(&mallocng_lock); }
static inline void upgradelock(void) {}

#endif
