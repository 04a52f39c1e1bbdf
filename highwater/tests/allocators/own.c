/* A small sound allocator of its own: power-of-two classes, a header before each block, one lock that
 * forks respect. It shares no code with glibc's, so that a probe that only knows glibc's ways is found
 * out. A -DBREAK_... breaks one thing. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CLASSES 48
#define CHUNK ((size_t)4 << 20)

/* Right before each block; 16 bytes. `whole` is what was taken from the lists, from `base` on. */
struct header {
    uint64_t base;
    uint32_t class;
    uint32_t usable_class;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *lists[CLASSES];
static char *fresh, *fresh_end;

#ifdef BREAK_LOCK
static void lock(void) {}
static void unlock(void) {}
#else
static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }
#endif

#ifndef BREAK_ATFORK
__attribute__((constructor)) static void forks(void) { pthread_atfork(lock, unlock, unlock); }
#endif

static void *map(size_t size) {
#ifdef BREAK_SHARED
    int flags = MAP_SHARED | MAP_ANONYMOUS;
#else
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#endif
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static char *carve(size_t size) {
    if (size > CHUNK / 4) return map(size);
    if ((size_t)(fresh_end - fresh) < size) {
        fresh = map(CHUNK);
        if (!fresh) return fresh_end = NULL;
        fresh_end = fresh + CHUNK;
    }
    char *piece = fresh;
    fresh += size;
    return piece;
}

static char *take(unsigned class) {
    lock();
    char *piece = lists[class];
    if (piece) memcpy(&lists[class], piece, sizeof(void *));
    else piece = carve((size_t)1 << class);
    unlock();
    return piece;
}

static struct header *header_of(void *block) { return (struct header *)block - 1; }

static size_t usable(void *block) {
    struct header *header = header_of(block);
    return header->base + ((size_t)1 << header->class) - (uintptr_t)block;
}

#ifdef BREAK_TABLE
/* Room for so many threads, and no look whether there is. */
static __thread int number;
static int *volatile table[128];
static int threads;
#endif

static void *get(size_t alignment, size_t size) {
#ifdef BREAK_TABLE
    if (!number) {
        number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
        if (number >= 1100) __builtin_trap();
        table[number % 128] = &number;
    }
#endif
    if (size > (size_t)1 << 46) return errno = ENOMEM, NULL;
    size_t whole = size + sizeof(struct header) + (alignment > 16 ? alignment : 0);
    unsigned class = 5;
    while ((size_t)1 << class < whole) class++;
    char *piece = take(class);
    if (!piece) return errno = ENOMEM, NULL;
    uintptr_t at = (uintptr_t)piece + sizeof(struct header);
    at = (at + alignment - 1) & ~(alignment - 1);
    struct header *header = header_of((void *)at);
    header->base = (uintptr_t)piece, header->class = class, header->usable_class = class;
    return (void *)at;
}

void *malloc(size_t size) { return get(16, size); }

void free(void *block) {
    if (!block) return;
    struct header *header = header_of(block);
    char *piece = (char *)header->base;
    unsigned class = header->class;
    lock();
    memcpy(piece, &lists[class], sizeof(void *));
    lists[class] = piece;
    unlock();
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, NULL;
    void *block = malloc(bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

void *realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    size_t has = usable(block);
    if (size <= has && size > has / 4) return block;
    void *moved = malloc(size);
    if (!moved) return NULL;
    memcpy(moved, block, has < size ? has : size);
    free(block);
    return moved;
}

void *memalign(size_t alignment, size_t size) { return get(alignment < 16 ? 16 : alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
void *valloc(size_t size) { return memalign((size_t)sysconf(_SC_PAGESIZE), size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) || !alignment || (alignment & (alignment - 1))) return EINVAL;
    void *block = memalign(alignment, size);
    if (!block) return ENOMEM;
    *out = block;
    return 0;
}

size_t malloc_usable_size(void *block) { return block ? usable(block) : 0; }
